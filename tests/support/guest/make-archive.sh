#!/bin/sh
# make-archive.sh ARCHIVE FILE...
#
# Makes ARCHIVE, a compressed cpio archive to be appended to the guest's initramfs: each FILE (or directory) at the path
# that it has here, and the shared libraries that they need. With it, programs that were built for this machine run in
# the guest as they are.
set -eu
umask 022

fail() {
    echo "make-archive: $*" >&2
    exit 1
}

[ $# -ge 2 ] || { echo "usage: make-archive.sh ARCHIVE FILE..." >&2; exit 2; }
archive=$1
shift
for tool in cpio gzip ldd strip; do
    command -v $tool >/dev/null || fail "$tool is not installed (packages cpio, gzip, libc-bin, binutils)"
done

mkdir -p "$(dirname "$archive")"
work=$(mktemp -d "$archive.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
root=$work/root
mkdir "$root"

for path in "$@"; do
    [ -e "$path" ] || fail "$path is missing: build or install it first"
    cp -RL --parents "$path" "$root"
done
# A library's own needs are in the list of the program that needs it.
find "$@" -type f | while read -r file; do
    ldd "$file" 2>/dev/null | sed -n 's/^[^/]*\(\/[^ ]*\) (0x.*/\1/p'
done | LC_ALL=C sort -u >"$work/libraries"
while read -r library; do
    cp -L --parents "$library" "$root"
done <"$work/libraries"
# Debug information would make it several times as large.
find "$root" -type f -exec strip --strip-debug {} + 2>/dev/null || :

(cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc -R 0:0 --quiet) | gzip -n -1 >"$work/archive"
mv "$work/archive" "$archive"
