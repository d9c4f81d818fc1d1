"""Faults in places, credentials and clients of stores, and in what others have written there."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_CREDENTIALS = "backup/credentials.py"
_STORES = "api/stores.py"
_UNTRUSTED = "untrusted.py"

MUTANTS: Final = [
    Mutant(
        _UNTRUSTED,
        "if type(value) is not int or value < least:",
        "if value < least:",
        "half a key, or an infinite one, goes into a status that the API server refuses",
    ),
    Mutant(
        _UNTRUSTED,
        "not math.isfinite(value)",
        "value != value",
        "`1e999` in a manifest goes into the EtcdCluster that is made of it",
    ),
    Mutant(
        "operator/etcd_operator/backup/sink.py",
        '                raise TooLarge(f"it has {size} bytes, which is more than {most} bytes")\n',
        "                return None\n",
        "a backup whose manifest is too large to be read counts as nobody's, and is deleted",
    ),
    Mutant(
        "backup/order.py",
        "    if len(text) <= _MOST_PLAIN:\n",
        "    if True:\n",
        "no backup of a cluster with many roles is ever begun",
    ),
    Mutant(
        _STORES,
        'part in ("", ".", "..") for part',
        'part in ("", ".") for part',
        "a key climbs out of its place",
    ),
    Mutant(
        _CREDENTIALS,
        "    except (configparser.Error, ValueError):",
        "    except ValueError:",
        "what is in the Secret is told to everybody",
    ),
    Mutant(
        _STORES,
        "elif found and not AZURE_ACCOUNT.fullmatch(found):",
        "elif False:",
        "the name of an account leads the pod's identity to another host",
    ),
    Mutant(
        _CREDENTIALS,
        "    if store.checksum:\n",
        "    if False:\n",
        "a store that asks for checksums refuses each backup",
    ),
    Mutant(
        _CREDENTIALS,
        '    if store.checksum:\n        config["checksum_algorithm"] = store.checksum\n',
        '    config["checksum_algorithm"] = store.checksum or "CRC64NVME"\n',
        "F32: a store that knows no checksums is sent one, and refuses each backup",
    ),
    Mutant(
        _STORES,
        'if name and endpoint and not endpoint.startswith("https://"):',
        "if False:",
        "credentials go in plaintext to a store whose authority the spec names",
    ),
    Mutant(
        _STORES,
        'ca_secret=str(given.get(_CA, "")),',
        "",
        "a store's authority is forgotten on the way to the Job",
    ),
    Mutant(
        "operator/etcd_operator/backup/clients.py",
        " | self._trust",
        "",
        "a store's authority is read and not used",
    ),
    Mutant(
        "backup/trouble.py",
        'if why != _UNKNOWN or store.kind != "S3":',
        "if True:",
        "who needs the field for a store's authority is not told of it",
    ),
    Mutant(
        "operator/etcd_operator/backup/channel.py",
        "for number in shared[1:]:",
        "for number in shared[2:]:",
        "no backup connects by the second of two authorities of one name",
    ),
    Mutant(
        "api/stores.py",
        "if store.place == place else store",
        "if place else store",
        "a cluster that an EtcdRestore has made cannot be pointed at another backup",
    ),
    Mutant(
        _STORES,
        'if store.sha256 in ("", sha256):',
        "if True:",
        "a restore by name takes whatever lies there by now",
    ),
    Mutant(
        "operator/etcd_operator/backup/channel.py",
        "method.future(request, timeout=seconds)",
        "method.future(request)",
        "a member that hangs over its keys has all the time that there is",
    ),
    Mutant(
        "operator/etcd_operator/backup/clients.py",
        '{"read_timeout": silent} | ',
        "",
        "a store that hangs while a backup is read back takes all of its time",
    ),
    Mutant(
        "operator/etcd_operator/backup/clients.py",
        '"retry_config": {"retry_timeout": silent} | retry',
        '"retry_config": retry',
        "a store that hangs is asked the same again until the time is over",
    ),
    Mutant(
        _STORES,
        'service_account=str(given.get("serviceAccountName", "")),',
        "",
        "who has stored a backup is forgotten on the way to its restore",
    ),
    Mutant(
        "operator/etcd_operator/backup/sink.py",
        "            if folder == self._root:\n                return\n",
        "            return\n",
        "a folder that was made for a backup is gone after a loss of power, with the backup",
    ),
    Mutant(
        "operator/etcd_operator/backup/clients.py",
        "_AT_FIRST, seconds=FIRST_LOOK_SECONDS",
        "_AT_FIRST",
        "a store that accepts connections and is silent is not named in time",
    ),
    Mutant(
        "operator/etcd_operator/backup/sink.py",
        "if (self._root / marker.FILE).exists():",
        "if False:",
        "a Job writes over the files of a member whose claim was recorded later",
    ),
    Mutant(
        "operator/etcd_operator/backup/sink.py",
        ' if f"{one}/".startswith(start)]',
        "]",
        "a folder of root hides all other files of a volume",
    ),
    Mutant(
        "operator/etcd_operator/backup/sink.py",
        "if not trouble.is_unlisted(str(error.__cause__)):",
        "if True:",
        "a file of another tool in a folder that follows keeps all old backups",
    ),
    Mutant(
        "operator/etcd_operator/backup/sink.py",
        "if not (failed.forbidden or trouble.is_unlisted(str(error))):",
        "if not failed.forbidden:",
        "a file of another tool keeps backups from being made",
    ),
]
