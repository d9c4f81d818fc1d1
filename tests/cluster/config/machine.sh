# Runs as the first process of a machine, in its own network, mount and PID namespaces.
# Whatever is mounted or started in here is gone, all of it, when this process is.
set -eu
mount -n --make-rshared /
mount -n -t tmpfs -o mode=755 tmpfs /run
mount --bind "$lib" /var/lib
mount --bind "$log" /var/log
echo 1 > /proc/sys/net/ipv4/ip_forward
[ ! -e /proc/sys/net/ipv6 ] || echo 1 > /proc/sys/net/ipv6/conf/all/forwarding

exec tini -- sleep infinity
