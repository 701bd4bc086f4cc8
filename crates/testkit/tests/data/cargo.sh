#!/bin/sh
here=${0%/*}
echo "$*" >> "$here/asked"
case "$*" in
*--no-run*) exit "$(cat "$here/built-code")" ;;
"nextest list"*) cat "$here/listed"; exit ;;
*"-j 1 "*) run=second ;;
*"--run-ignored all"*) run=late ;;
*) run=first ;;
esac
mkdir -p target/nextest/default
cp "$here/$run.xml" target/nextest/default/junit.xml
exit "$(cat "$here/$run-code")"
