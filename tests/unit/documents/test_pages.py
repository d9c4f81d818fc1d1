"""Links, metrics and reasons in pages and examples exist, and their manifests are accepted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import filter as filter_names
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from etcd_stateful import naming
from etcd_stateful.api.backup import parse_backup
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.api.quantity import parse_quantity
from etcd_stateful.api.restore import parse_restore
from etcd_stateful.api.schedule import parse_schedule
from etcd_stateful.jobs.restore import volume_too_small
from etcd_stateful.manifests.statefulset import stateful_set
from unit.documents.exported import families

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("tests/**/README.md"),
        *ROOT.glob("charts/*/README.md"),
    }
)
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
STATUS = (ROOT / "docs" / "status.md").read_text()
OPERATOR = (ROOT / "docs" / "operator.md").read_text()
PARSERS = {
    naming.CLUSTER_KIND: parse_cluster,
    naming.BACKUP_KIND: parse_backup,
    naming.SCHEDULE_KIND: parse_schedule,
    naming.RESTORE_KIND: parse_restore,
}
CORE, SHELL = ROOT / "stateful" / "etcd_stateful", ROOT / "operator" / "etcd_operator"
NO_BLOCK = {"Paused"}
"""Conditions that the user asked for, which have a type of their own."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub creates for headings."""
    titles = re.findall(r"^#+ (.*)$", prose(page), flags=re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page

        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_change_log_said_some_things_twice() -> None:
    """As merges left it: an entry, and the same entry in other words a few lines below."""
    entries = (ROOT / "CHANGELOG.md").read_text().split("\n- ")[1:]
    begins = [" ".join(entry.split()[:5]) for entry in entries]

    assert [one for one in begins if begins.count(one) > 1] == []


def test_the_change_log_had_ends_of_sentences_without_their_beginnings() -> None:
    """As merges left it: the last line of an entry once more, in the middle of another one."""
    text = (ROOT / "CHANGELOG.md").read_text()
    begins = [line[:30] for line in text.splitlines() if len(line) >= 30]

    assert re.findall(r"\.\n  [a-z].*", text) == []
    assert [one for one in begins if begins.count(one) > 1] == []


def manifests() -> Iterator[Any]:
    """The manifests in the examples, and the complete ones in the documentation."""
    for path in EXAMPLES:
        for body in yaml.safe_load_all(path.read_text()):
            yield pytest.param(body, id=f"{name_of(path)}: {body['kind']}")
    for page in PAGES:
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), flags=re.DOTALL):
            if block.startswith("apiVersion:"):
                yield pytest.param(yaml.safe_load(block), id=name_of(page))


@pytest.mark.parametrize("body", list(manifests()))
def test_every_manifest_of_ours_is_taken(body: dict[str, Any]) -> None:
    """And has no field that there is not: a parser does not look at those."""
    if body["apiVersion"] == naming.API_VERSION:
        PARSERS[body["kind"]](body)
        assert set() in [unknown_fields(body["spec"], fields) for fields in FIELDS]


def fields_of_specs() -> list[set[str]]:
    """The paths of all fields, as the reference has them from the CRDs, one set for each kind."""
    sections = (ROOT / "docs" / "reference.md").read_text().split("### spec")[1:]
    specs = (section.partition("### status")[0] for section in sections)
    return [set(re.findall(r"^\| `(\S+)` \|", spec, re.MULTILINE)) for spec in specs]


FIELDS = fields_of_specs()


def parts() -> Iterator[Any]:
    """The parts of manifests in the documentation, and the patches in commands."""
    for page in PAGES:
        text = page.read_text()
        found = re.findall(r"```yaml\n(?!apiVersion:)(.*?)```", text, flags=re.DOTALL)
        for block in (*found, *re.findall(r"'(\{\"spec\":.*?\})'", text)):
            body = yaml.safe_load(block.replace("<status.epoch>", "1"))
            spec = body.get("spec", body)
            if "spec" in body or any(next(iter(spec)) in fields for fields in FIELDS):
                yield pytest.param(spec, id=f"{name_of(page)}: {next(iter(spec))}")


def unknown_fields(value: Any, fields: set[str], path: str = "") -> set[str]:
    if isinstance(value, list):
        return set().union(*(unknown_fields(one, fields, f"{path}[]") for one in value))
    start = f"{path}." if path else ""
    if not isinstance(value, dict) or not any(field.startswith(start) for field in fields):
        return set()
    known = {key: one for key, one in value.items() if f"{start}{key}" in fields}
    inner = (unknown_fields(one, fields, f"{start}{key}") for key, one in known.items())
    return {f"{start}{key}" for key in value.keys() - known}.union(*inner)


@pytest.mark.parametrize("spec", list(parts()))
def test_every_field_in_a_part_of_a_manifest_exists(spec: dict[str, Any]) -> None:
    assert set() in [unknown_fields(spec, fields) for fields in FIELDS]


@pytest.mark.parametrize(
    "body", [one for one in manifests() if one.values[0]["kind"] == naming.CLUSTER_KIND]
)
def test_a_backup_as_large_as_the_quota_fits_on_each_declared_volume(body: dict[str, Any]) -> None:
    """It must fit again when it is restored into the same spec. The file system needs less than the
    margin. A full member needs nearly as much to be defragmented; the example with an emptyDir had
    less."""
    cluster = parse_cluster(body)
    limit = (cluster.pod.empty_dir or {}).get("sizeLimit")
    size = parse_quantity(cluster.storage if cluster.durable else str(limit))

    assert size is not None
    assert not volume_too_small(cluster.etcd.quota_bytes, int(size))


def reasons() -> set[str]:
    """The reasons of every step that waits for a human. Some are constants."""
    found: set[str] = set()
    for path in (CORE / "membership").rglob("*.py"):
        name = path.relative_to(CORE.parent).with_suffix("")
        module = import_module(".".join(name.parts))
        said = re.findall(r'\bHold\(\s*(?:"(\w+)"|(?:\w+\.)?([A-Z_]+)),', path.read_text())
        found |= {word or getattr(module, constant, "") for word, constant in said} - {""}
    return found


def test_every_reason_of_blocked_is_explained() -> None:
    table = STATUS.partition("## Reasons for `Blocked`")[2].partition("\n## ")[0]
    explained = re.findall(r"`(\w+)`", "".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE)))

    assert len(explained) == len(set(explained))
    assert set(explained) == reasons() - NO_BLOCK


def words_in(module: str) -> set[str]:
    """Texts in the code that look like the type, status or reason of a condition."""
    tree = ast.parse((CORE / module).read_text())
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return {one for one in texts if isinstance(one, str) and re.fullmatch("[A-Z][A-Za-z]+", one)}


def test_every_reason_of_a_condition_is_explained() -> None:
    """Only those of Blocked were. Anybody who wrote an alert on the others had to read the code."""
    section = STATUS.partition("## Reasons of conditions")[2].partition("\n## ")[0]
    rows = re.findall(r"^\|([^|]*)\|(.*)\|$", section, re.MULTILINE)
    explained = {one for _, cell in rows for one in re.findall(r"`([A-Z][A-Za-z]+)`", cell)}
    modules = ("status/conditions.py", "status/transitions.py", "status/disruptions.py")
    found = {one for module in modules for one in words_in(module)}

    tables = STATUS.partition("## Conditions")[2].partition("\n## ")[0]
    types = set(re.findall(r"^\| `(\w+)` \|", tables, re.MULTILINE))
    others = {"True", "False", "Unknown"}

    assert explained - found == {"InvalidSpec", "UnsupportedVersion"}
    assert found - explained - types == others


def reasons_of_backups() -> set[str]:
    """The reasons in the conditions of backups, schedules and restores: first arguments, but for
    those of a schedule."""
    makers, found = {"Failure", "Miss", "WriteRestoreStatus", "WriteStatus"}, set[str]()
    for path in (*(CORE / "backup").glob("*.py"), *SHELL.glob("*backup*/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                given = ast.walk(node.args[0]) if node.func.id in makers else ()
                found |= {str(one.value) for one in given if isinstance(one, ast.Constant)}
    return {one for one in found if re.fullmatch("[A-Z][A-Za-z]+", one)}


def test_every_reason_of_a_backup_a_schedule_or_a_restore_is_explained() -> None:
    """Those of `Retained` were not, nor that of `LastRun` before the first run."""
    pages = prose(ROOT / "docs" / "backup.md") + prose(ROOT / "docs" / "restore.md")
    explained = set(re.findall(r"`([A-Z][A-Za-z]+)`", pages))
    found = reasons_of_backups() | words_in("backup/schedule_status.py")

    assert {"AlreadyStored", "ClusterChanged", "NoneYet", "TooLate", "Verifying"} <= found
    assert found - explained - {"True", "False", "Unknown"} == set()


def test_every_event_of_a_cluster_is_explained() -> None:
    """Only a few were named, here and there. Anybody who watched Events had to read the code."""
    tree = ast.parse((SHELL / "cluster" / "step_events.py").read_text())
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    words = {one for one in texts if isinstance(one, str) and re.fullmatch("[A-Z][A-Za-z]+", one)}
    kinds = {"StatefulSet", "PodDisruptionBudget", "NetworkPolicy", "PersistentVolumeClaim"}
    section = STATUS.partition("\n## Events\n")[2].partition("\n## ")[0]
    cells = "".join(re.findall(r"^\|([^|]*)\|", section, re.MULTILINE))

    explained = re.findall(r"`(\w+)`", cells)
    assert len(explained) == len(set(explained))
    assert set(explained) == words - kinds - {"Normal", "Warning"}


@pytest.mark.parametrize(
    ("root", "begin", "end"),
    [(CORE, "## The core", "## The shell"), (SHELL, "## The shell", "\n## ")],
    ids=["core", "shell"],
)
def test_the_map_of_the_code_names_every_module_and_no_other(
    root: Path, begin: str, end: str
) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`(\w+\.py)`", page.partition(begin)[2].partition(end)[0]))
    modules = [path for path in root.rglob("*.py") if not path.stem.startswith("__")]
    needed = {one.name for one in modules if one.parent.name not in ("api", "manifests")}

    assert needed - named == set()
    assert named - {one.name for one in modules} <= {"__main__.py"}


def test_the_map_of_the_shell_shows_each_module_in_its_package() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    shown: dict[str, set[str]] = {}
    for row in page.partition("## The shell")[2].partition("\n## ")[0].splitlines():
        if heading := re.match(r"\| \*\*(\w+)/\*\* \|", row):
            shown[package := heading[1]] = set()
        elif row.startswith("| `"):
            shown[package] |= set(re.findall(r"`(\w+\.py)`", row))
    there: dict[str, set[str]] = {}
    for path in SHELL.rglob("*.py"):
        if not path.stem.startswith("__"):
            there.setdefault(path.parent.name, set()).add(path.name)

    assert {name: names - {"__main__.py"} for name, names in shown.items()} == there


def test_every_invariant_that_is_cited_is_defined() -> None:
    text = (ROOT / "docs" / "invariants.md").read_text()
    defined = re.findall(r"^## (I\d+): ", text, flags=re.MULTILINE)
    pages = [ROOT / "docs" / name for name in ("architecture.md", "design.md")]
    texts = [path.read_text() for path in (*pages, *CORE.rglob("*.py"), *SHELL.rglob("*.py"))]
    cited = {one for text in texts for one in re.findall(r"\bI(?:1[0-2]|[1-9])\b", text)}

    assert defined == [f"I{number}" for number in range(1, 13)]
    assert cited
    assert cited <= set(defined)


def test_every_metric_of_ours_that_is_spoken_of_is_there() -> None:
    texts = [path.read_text() for path in (*PAGES, *EXAMPLES)]
    ours = re.compile(r"\betcd_(?:operator|cluster|backup_schedule|backup_interval)_[a-z_]+\b")
    spoken = {one for text in texts for one in ours.findall(text)}

    assert spoken - families() == set()
    assert "etcd_cluster_available" in spoken


def test_every_metric_is_explained_and_nothing_else_is() -> None:
    """Half of what was exported was in no table, and nothing said what to watch."""
    section = OPERATOR.partition("## Metrics and logs")[2].partition("\n## ")[0]
    cells = re.findall(r"^\|([^|]*)\|", section, re.MULTILINE)
    explained = re.findall(r"`([a-z_*]+)`", "".join(cells))
    exported = families()

    assert len(explained) == len(set(explained))
    assert {one for one in exported if not any(fnmatchcase(one, name) for name in explained)} == (
        set()
    )
    assert {name for name in explained if not filter_names(exported, name)} == set()


def test_the_examples_find_the_members_by_labels_and_port() -> None:
    [monitor] = [
        body
        for body in yaml.safe_load_all((ROOT / "examples" / "monitoring.yaml").read_text())
        if body["kind"] == "PodMonitor"
    ]
    cluster = parse_cluster({"metadata": {"name": "good"}, "spec": {"size": 3}})
    template = stateful_set(cluster, replicas=3, operator_image="x")["spec"]["template"]
    [etcd] = template["spec"]["containers"]

    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= template["metadata"]["labels"].items()
    assert [one["port"] for one in monitor["spec"]["podMetricsEndpoints"]] == ["metrics"]
    assert "metrics" in [port["name"] for port in etcd["ports"]]


def test_the_charts_readme_names_values_that_exist() -> None:
    chart = ROOT / "charts" / "etcd-operator"
    rows = re.findall(r"^\| (`.*?) \|", (chart / "README.md").read_text(), re.MULTILINE)
    named = [name for cell in rows for name in re.findall(r"`([\w.]+)`", cell)]

    assert "image.repository" in named
    for name in named:
        values: Any = yaml.safe_load((chart / "values.yaml").read_text())
        for part in name.split("."):
            assert part in values, name
            values = values[part]


def test_the_command_that_deletes_the_old_etcd_deleted_a_new_one_of_its_name() -> None:
    """Members and claims have coreos's labels too, and in the old namespace a slip was enough."""
    page = (ROOT / "docs" / "migrate-from-coreos.md").read_text()
    [selector] = re.findall(r"kubectl delete pod,service,pvc .* -l '([^']*)'", page)
    terms, ours = selector.split(","), naming.labels("OLDNAME")
    wanted = dict(term.split("=") for term in terms if "=" in term)

    assert wanted == {"app": "etcd", "etcd_cluster": "OLDNAME"}
    assert [term for term in terms if term.removeprefix("!") in ours] == [
        f"!{naming.LABEL_MANAGED_BY}"
    ]


def test_the_application_asks_as_the_operator_lets_it() -> None:
    """The Secret, its keys and the address belong to the cluster in `etcd-cluster.yaml`."""
    deployment = yaml.safe_load((ROOT / "examples" / "application.yaml").read_text())
    cluster = yaml.safe_load((ROOT / "examples" / "etcd-cluster.yaml").read_text())
    name = cluster["metadata"]["name"]
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    told = {one["name"]: one["value"] for one in container["env"]}
    [volume], [mount] = pod["volumes"], container["volumeMounts"]

    assert told.pop("ETCDCTL_ENDPOINTS") == f"https://{naming.client_service(name)}:2379"
    assert volume["secret"]["secretName"] == naming.client_certificate(name)
    assert {path.removeprefix(f"{mount['mountPath']}/") for path in told.values()} == {
        "ca.crt",
        "tls.crt",
        "tls.key",
    }


def test_the_service_for_clients_outside_selects_the_members() -> None:
    [body] = [one.values[0] for one in manifests() if one.values[0]["kind"] == "Service"]

    assert body["spec"]["selector"] == naming.selector("NAME")
    assert [one["port"] for one in body["spec"]["ports"]] == [naming.CLIENT_PORT]
