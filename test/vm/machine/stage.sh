# Second program of the machine, in the host's tree: the usual mounts, the command, its exit status, power off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
ip link set lo up
hostname machine

touch /run/machine/started
# The first serial line carries the kernel's words, the second the command's: raw, no line ends changed.
stty -F /dev/ttyS1 raw
# Through a pipe, so that the command sees no terminal.
{
	sh /run/machine/command.sh </dev/null 2>&1
	echo $? >/run/machine/exit-code
} | cat >/dev/ttyS1
sync
echo o >/proc/sysrq-trigger
# The kernel powers off by a worker; the first program must not end before.
exec sleep 60
