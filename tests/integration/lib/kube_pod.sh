#!/usr/bin/env bash
# The first process of a pod of kube_standin.mjs: builds the pod's root in mount, pid, network, uts and ipc namespaces that are its own
# already, says on descriptor 3 that it has, and becomes the container's command.
#
#   kube_pod.sh ROOT PLAN ro|rw COMMAND…
#
# PLAN has a line for each volume: tmpfs TARGET MODE GROUP BYTES, or bind TARGET SOURCE (read-only). The image is this host's /usr.
set -euo pipefail
root=$1 plan=$2 access=$3
shift 3

mount --make-rprivate /
mount -t tmpfs -o mode=755,size=1g tmpfs "$root"
cd "$root"
mkdir -p usr etc proc dev sys tmp run old var/tmp root
mount --bind /usr usr
mount -o remount,bind,ro usr
for each in bin sbin lib lib32 lib64 libx32; do
    if [ -L "/$each" ]; then ln -s "usr/$each" "$each"; fi
done
printf 'root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n' >etc/passwd
printf 'root:x:0:\nnogroup:x:65534:\n' >etc/group
for each in ld.so.cache alternatives localtime; do
    if [ -e "/etc/$each" ]; then cp -a "/etc/$each" etc/; fi
done
hostname sandbox
printf '127.0.0.1 localhost\n' >etc/hosts
: >etc/resolv.conf
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
for each in null zero full random urandom tty; do
    : >"dev/$each"
    mount --bind "/dev/$each" "dev/$each"
done
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
chmod 1777 tmp var/tmp
if command -v ip >/dev/null; then ip link set lo up; fi

while read -r kind target one two three; do
    mkdir -p "$root$target"
    if [ "$kind" = tmpfs ]; then
        mount -t tmpfs -o "mode=$one,gid=$two,size=$three" tmpfs "$root$target"
    else
        mount --bind "$one" "$root$target"
        mount -o remount,bind,ro "$root$target"
    fi
done <"$plan"

pivot_root . old
cd /
umount -l old
rmdir old
if [ "$access" = ro ]; then mount -o remount,bind,ro /; fi
echo ready >&3
exec 3>&-
exec "$@"
