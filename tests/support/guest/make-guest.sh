#!/bin/sh
# make-guest.sh KERNEL OUTDIR [--agent FILE] [--workload FILE] [--command-server FILE]
#
# Makes the guest that the tests and the demo boot: OUTDIR/KERNEL/vmlinuz and OUTDIR/KERNEL/initramfs.cpio.gz, and
# says in OUTDIR/accel how to run it. KERNEL is 6.1 or 6.12. The kernel is Debian's cloud kernel, downloaded as a
# package and unpacked below OUTDIR; nothing is installed. A second call downloads nothing and makes the initramfs
# anew only when a file in it changed. Every file appears whole, by a rename, so an interrupted call does no harm.
# See README.md beside this file.
set -eu
umask 022

fail() {
    echo "make-guest: $*" >&2
    exit 1
}

usage() {
    echo "usage: make-guest.sh 6.1|6.12 OUTDIR [--agent FILE] [--workload FILE] [--command-server FILE]" >&2
    exit 2
}

[ $# -ge 2 ] || usage
kernel=$1
out=$2
shift 2
agent=
workload=
command_server=
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || usage
    case $1 in
    --agent) agent=$2 ;;
    --workload) workload=$2 ;;
    --command-server) command_server=$2 ;;
    *) usage ;;
    esac
    [ -f "$2" ] || fail "$1: $2 is missing: build it first"
    shift 2
done

mirror=${VTRACE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
security_mirror=${VTRACE_DEBIAN_SECURITY_MIRROR:-http://deb.debian.org/debian-security}
# Where to look for the kernel, the smallest package index first.
case $kernel in
6.1) suites="bookworm-security bookworm" ;;
6.12) suites="bookworm-backports trixie" ;;
*) usage ;;
esac

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
busybox=${BUSYBOX:-/bin/busybox}
[ -x "$busybox" ] || fail "$busybox is missing: install busybox-static"
for tool in apt-get apt-cache dpkg dpkg-deb cpio gzip xz flock sha256sum; do
    command -v $tool >/dev/null || fail "$tool is not installed (packages apt, dpkg, cpio, gzip, xz-utils, util-linux, coreutils)"
done
PATH=$PATH:/sbin:/usr/sbin
command -v depmod >/dev/null || fail "depmod is not installed: install kmod"

mkdir -p "$out/$kernel" "$out/packages"
out=$(CDPATH='' cd -- "$out" && pwd)
image=$out/$kernel
work=$out/.work-$kernel

# Two callers (ctest -j) take turns.
exec 9>"$out/.lock"
flock 9
rm -rf "$work"
mkdir "$work"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# --- the kernel package -------------------------------------------------------------------------------------------

# apt_in SUITE COMMAND...: apt with package lists, cache and configuration of its own below OUTDIR.
apt_in() {
    apt_dir=$out/apt/$1
    apt_command=$2
    shift 2
    "$apt_command" -q -q -o "Dir::Etc::SourceList=$apt_dir/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o "Dir::State::Lists=$apt_dir/lists" -o "Dir::Cache=$apt_dir/cache" -o APT::Sandbox::User= \
        -o Acquire::Languages=none -o Acquire::Retries=2 -o APT::Architecture=amd64 -o APT::Architectures=amd64 "$@"
}

# fetch_from SUITE: downloads the kernel package from it into $work.
fetch_from() {
    suite=$1
    url=$mirror
    [ "$suite" != bookworm-security ] || url=$security_mirror
    mkdir -p "$out/apt/$suite/lists/partial" "$out/apt/$suite/cache/archives/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $url $suite main" >"$out/apt/$suite/sources.list"
    apt_in "$suite" apt-get -o APT::Update::Error-Mode=any update || return 1
    package=$(apt_in "$suite" apt-cache show linux-image-cloud-amd64 |
        sed -n "s/^Depends:.*\\(linux-image-$(echo "$kernel" | sed 's/\./\\./')\\.[^ ,]*\\).*/\\1/p" | head -n 1)
    [ -n "$package" ] || return 1
    (cd "$work" && apt_in "$suite" apt-get download "$package")
}

fetch_kernel() {
    for deb in "$out/packages/linux-image-$kernel".*.deb; do
        [ ! -f "$deb" ] || return 0
    done
    for suite in $suites; do
        echo "guest: downloading kernel $kernel from $suite"
        if fetch_from "$suite"; then
            mv "$work"/linux-image-*.deb "$out/packages/"
            return 0
        fi
    done
    fail "no kernel $kernel could be downloaded from $mirror ($suites): is the network there? \
VTRACE_DEBIAN_MIRROR names another mirror, and a linux-image-$kernel.*-cloud-amd64 package put into \
$out/packages is used as it is"
}

# unpack_kernel: vmlinuz, its release, and the modules that virtio-serial needs, in the order to load them.
unpack_kernel() {
    set -- "$out/packages/linux-image-$kernel".*.deb
    deb=$1
    dpkg-deb --info "$deb" >/dev/null 2>&1 || {
        rm -f "$deb"
        fail "$deb was damaged and is removed: run this again"
    }
    dpkg -x "$deb" "$work/package"
    [ -e "$work/package/lib" ] || ln -s usr/lib "$work/package/lib"
    release=$(basename "$work"/package/boot/vmlinuz-*)
    release=${release#vmlinuz-}
    depmod -b "$work/package" "$release"

    mkdir -p "$work/modules"
    : >"$work/modules/load-order"
    for module in virtio_pci virtio_console; do
        # Prints "insmod PATH" for the module and all that it needs, in order, and "builtin NAME".
        modprobe -d "$work/package" -S "$release" --show-depends "$module" >"$work/depends" ||
            fail "kernel $release has no module $module"
        while read -r verb path _; do
            [ "$verb" = insmod ] || continue
            name=$(basename "$path")
            name=${name%.xz}
            [ ! -e "$work/modules/$name" ] || continue
            case $path in
            *.xz) xz -dc "$path" >"$work/modules/$name" ;;
            *.ko) cp "$path" "$work/modules/$name" ;;
            *) fail "$path: this compression is not known here" ;;
            esac
            echo "$name" >>"$work/modules/load-order"
        done <"$work/depends"
    done

    rm -rf "$image/modules"
    mv "$work/modules" "$image/modules"
    cp "$work"/package/boot/vmlinuz-* "$work/vmlinuz"
    echo "$release" >"$work/release"
    mv "$work/release" "$image/release"
    mv "$work/vmlinuz" "$image/vmlinuz" # the last: with it the kernel is complete
    rm -rf "$work/package"
}

if [ ! -e "$image/vmlinuz" ]; then
    fetch_kernel
    unpack_kernel
fi

# --- the initramfs ------------------------------------------------------------------------------------------------

root=$work/root
mkdir -p "$root"
cp -R "$here/root/." "$root/"
mkdir -p "$root/dev" "$root/proc" "$root/sys" "$root/run" "$root/tmp" "$root/lib"
cp -R "$image/modules" "$root/lib/modules"
cp "$busybox" "$root/bin/busybox"
for applet in $("$busybox" --list); do
    [ -e "$root/bin/$applet" ] || ln -s busybox "$root/bin/$applet"
done
ln -s ../bin/busybox "$root/sbin/init"
# Debug information would make the initramfs several times as large.
[ -z "$agent" ] || strip -o "$root/bin/virtio-trace-agent" "$agent" 2>/dev/null ||
    cp "$agent" "$root/bin/virtio-trace-agent"
[ -z "$workload" ] || cp "$workload" "$root/bin/vtrace-workload"
[ -z "$command_server" ] || cp "$command_server" "$root/bin/vtrace-command-server"
# The guest's own scripts are executable whatever the checkout made of them.
chmod 755 "$root/init" "$root"/bin/* "$root"/sbin/* 2>/dev/null || :

# What goes in decides whether it must be made anew: every file's content, link target and name.
sum=$(cd "$root" && {
    find . -type f | LC_ALL=C sort | tr '\n' '\0' | xargs -0 sha256sum
    find . -type l -exec sh -c 'for link; do echo "$link $(readlink "$link")"; done' sh {} + | LC_ALL=C sort
} | sha256sum)
if [ ! -e "$image/initramfs.cpio.gz" ] || [ "$sum" != "$(cat "$image/initramfs.sum" 2>/dev/null)" ]; then
    (cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc -R 0:0 --quiet) >"$work/initramfs"
    gzip -n -1 "$work/initramfs"
    rm -f "$image/initramfs.sum"
    mv "$work/initramfs.gz" "$image/initramfs.cpio.gz"
    echo "$sum" >"$image/initramfs.sum"
    echo "guest: $kernel is $(cat "$image/release")$([ -n "$agent" ] || echo ", without an agent")"
fi

"$here/probe-accel.sh" "$out" "$kernel"
