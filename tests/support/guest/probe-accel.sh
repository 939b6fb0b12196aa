#!/bin/sh
# probe-accel.sh OUTDIR KERNEL
#
# Writes OUTDIR/accel: "kvm" when KVM boots the stock kernel OUTDIR/KERNEL here, else "tcg"; and OUTDIR/accel.args, the
# QEMU arguments that go with it, one a line.
# That /dev/kvm exists proves little: where this machine is itself a guest, it may open and then hang after
# "Booting from ROM" or stop with an emulation failure. So a boot is tried, with a deadline.
set -eu

fail() {
    echo "probe-accel: $*" >&2
    exit 1
}

[ $# -eq 2 ] || { echo "usage: probe-accel.sh OUTDIR KERNEL" >&2; exit 2; }
out=$1
image=$1/$2
qemu=${QEMU:-qemu-system-x86_64}
deadline=${VTRACE_KVM_DEADLINE:-15}

[ -e "$image/vmlinuz" ] || fail "$image/vmlinuz is missing: run make-guest.sh $2 $out first"
command -v "$qemu" >/dev/null || fail "$qemu is not installed: install qemu-system-x86"

# The answer holds for this host kernel, processor and QEMU, and for the access this user has.
access=none
[ -r /dev/kvm ] && [ -w /dev/kvm ] && access=rw
key="$(uname -r) / $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1) / $("$qemu" --version | head -n 1) / $access"
if [ -s "$out/accel" ] && [ -s "$out/accel.args" ] && [ "$(cat "$out/accel.key" 2>/dev/null)" = "$key" ]; then
    exit 0
fi

# Under TCG all vCPUs share one thread. With a thread each, QEMU 7.2 races with a kernel that patches its own code, as
# it does at boot and whenever a trace event is switched: guests panic (int3) or hang. Its cmpxchg16b spoils the flags
# register besides, so the guest's kernel is not told of it.
settle() {
    case $1 in
    kvm) printf '%s\n' -accel kvm -cpu host ;;
    tcg) printf '%s\n' -accel tcg,thread=single -cpu max,cx16=off ;;
    esac >"$out/accel.args.$$"
    mv "$out/accel.args.$$" "$out/accel.args"
    echo "$1" >"$out/accel.$$"
    mv "$out/accel.$$" "$out/accel"
    echo "$key" >"$out/accel.key"
    echo "guest: accelerator $1 ($2)"
}

if [ $access = none ]; then
    settle tcg "/dev/kvm is absent or not ours to open"
    exit 0
fi

log=$out/accel-probe.log
rm -f "$log"
# timeout(1) outlives this script, so that a QEMU does not, whatever ends the script.
timeout -k 2 $((deadline + 10)) "$qemu" -nodefaults -no-user-config -display none -accel kvm -cpu host -smp 2 -m 512 -kernel "$image/vmlinuz" \
    -initrd "$image/initramfs.cpio.gz" -append "console=ttyS0 vtrace.agent=off" -serial "file:$log" >"$log.qemu" 2>&1 &
pid=$!
trap 'kill $pid 2>/dev/null || :' EXIT
trap 'exit 130' INT TERM

answer=
tenths=$((deadline * 10))
while [ -z "$answer" ]; do
    if grep -qs 'vtrace-guest: up' "$log"; then
        answer=kvm
        reason="booted a stock kernel"
    elif ! kill -0 $pid 2>/dev/null; then
        answer=tcg
        reason="QEMU ended with KVM: $(tail -n 1 "$log.qemu")"
    elif grep -q 'KVM internal error\|emulation failure' "$log.qemu"; then
        answer=tcg
        reason="KVM cannot run a stock kernel here: internal error"
    elif [ $tenths -le 0 ]; then
        answer=tcg
        reason="KVM did not boot a stock kernel within $deadline s"
    else
        tenths=$((tenths - 1))
        sleep 0.1
    fi
done
kill $pid 2>/dev/null || :
wait $pid 2>/dev/null || :
trap - EXIT
rm -f "$log" "$log.qemu"
settle $answer "$reason"
