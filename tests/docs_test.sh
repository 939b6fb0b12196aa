#!/bin/sh
# docs_test.sh BIN_DIR MAN_DIR
#
# The man pages and the programs' --help tell the same: each subcommand has a page, each page a subcommand, and the
# options in a page's section OPTIONS are those of the help. And man finds nothing to warn of.
set -eu

[ $# -eq 2 ] || { echo "usage: docs_test.sh BIN_DIR MAN_DIR" >&2; exit 2; }
bin=$1
man_dir=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
faults=0

fault() {
    echo "docs_test: $*" >&2
    faults=$((faults + 1))
}

# options_of_help < HELP: the words -x and --word at the start of each option's entry.
options_of_help() {
    sed -n 's/^  \(-[^ ]*\).*/\1/p' | tr ',' '\n' | sort -u
}

# options_of_page FILE: the same of the heads of the entries in the section OPTIONS.
options_of_page() {
    sed -n -e '/^\.SH OPTIONS/,/^\.SH [^O]/{' -e '/^\.TP/{' -e n -e 's/\\-/-/g' -e p -e '}' -e '}' "$1" |
        grep -oE -- '(^|[ "])--?[a-z][a-z-]*|(^|[ "])-[A-Z]' | tr -d ' "' | sort -u
}

# compare PAGE PROGRAM [SUBCOMMAND]: the options of the help, and those of the page.
compare() {
    page=$1
    shift
    if [ ! -f "$man_dir/$page" ]; then
        fault "$*: no page $man_dir/$page"
        return
    fi
    "$bin/$1" ${2:+"$2"} --help >"$work/help" || fault "$*: --help fails"
    options_of_help <"$work/help" >"$work/in-help"
    options_of_page "$man_dir/$page" >"$work/in-page"
    [ -s "$work/in-help" ] || fault "$*: --help shows no option"
    for option in $(comm -23 "$work/in-help" "$work/in-page"); do
        fault "$page: $option, an option of \"$*\", is not in its section OPTIONS"
    done
    for option in $(comm -13 "$work/in-help" "$work/in-page"); do
        fault "$page: $option is in its section OPTIONS and no option of \"$*\""
    done
}

compare virtio-trace.1 virtio-trace
compare virtio-trace-agent.8 virtio-trace-agent

"$bin/virtio-trace" --help >"$work/help"
commands=$(sed -n '/^Subcommands:/,$s/^  \([a-z][a-z-]*\) .*/\1/p' "$work/help")
[ -n "$commands" ] || fault "virtio-trace --help lists no subcommand"
for command in $commands; do
    compare "virtio-trace-$command.1" virtio-trace "$command"
    grep -qF "virtio\\-trace\\-$(printf %s "$command" | sed 's/-/\\-/g')" "$man_dir/virtio-trace.1" ||
        fault "virtio-trace.1: does not tell of $command"
done
for file in "$man_dir"/virtio-trace-*.1; do
    command=$(basename "$file" .1)
    command=${command#virtio-trace-}
    printf '%s\n' "$commands" | grep -qx -- "$command" || fault "$file: there is no subcommand $command"
done

for file in "$man_dir"/*.[18]; do
    for section in NAME SYNOPSIS DESCRIPTION OPTIONS "EXIT STATUS" EXAMPLES "SEE ALSO"; do
        grep -qx "\.SH $section" "$file" || fault "$file: has no section $section"
    done
    # Each page that is referred to, and is ours, is there.
    for name in $(sed 's/\\-/-/g' "$file" | grep -oE 'virtio-trace(-[a-z-]+)?"? ?\([18]\)' | tr -d '" ' | sort -u); do
        [ -f "$man_dir/$(printf %s "$name" | tr '(' '.' | tr -d ')')" ] || fault "$file: refers to $name, which is not there"
    done
done

if command -v man >/dev/null && man --version >/dev/null 2>&1; then
    for file in "$man_dir"/*.[18]; do
        MANROFFSEQ='' MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z "$file" 2>&1 >/dev/null |
            sed 's/^/docs_test: /' >"$work/warnings"
        if [ -s "$work/warnings" ]; then
            cat "$work/warnings" >&2
            fault "$file: man warns of it"
        fi
    done
else
    echo "docs_test: no man here: the pages' form is not checked"
fi

[ "$faults" -eq 0 ] || { echo "docs_test: $faults faults" >&2; exit 1; }
echo "docs_test: $(printf '%s\n' "$commands" | wc -l) subcommands and their pages agree"
