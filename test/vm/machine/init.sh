#!/bin/busybox sh
# First program of the machine, in its initramfs: puts the host's file tree together and starts stage.sh in it.
# The order of the modules is in /modules/order, written when the initramfs was built.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t devtmpfs dev /dev
while read -r module; do
	$b insmod "/modules/$module"
done </modules/order

# Loose caching is right because nothing writes to the host's tree through another way while the machine runs.
options=trans=virtio,version=9p2000.L,msize=512000
$b mount -t 9p -o "ro,cache=loose,$options" host /lower
$b mount -t tmpfs -o mode=755 upper /upper
$b mkdir /upper/data /upper/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work overlay /root

release=$($b uname -r)
$b mkdir -p "/root/lib/modules/$release"
$b mount -t 9p -o "ro,cache=loose,$options" modules "/root/lib/modules/$release"
$b mount -t tmpfs -o mode=755 run /root/run
$b mkdir /root/run/machine
$b mount -t 9p -o "$options" exchange /root/run/machine
$b mount -t devtmpfs dev /root/dev
$b umount /dev /proc
# Not chroot: the kernel looks for modprobe in the first root, and switch_root makes the tree just that.
exec $b switch_root /root /bin/sh /run/machine/stage.sh
