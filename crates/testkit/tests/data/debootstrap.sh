[ "$*" = "--variant=minbase --include=rabbitmq-server,elixir $3 $4" ] || exit 2
echo "$3" >> "${0%/*}/suites"
[ "$3" != sid ] || { echo 'E: Unmet dependencies' >&2; exit 1; }
mkdir -p "$4/var/lib/dpkg/info" && echo "$3" > "$4/suite"
touch "$4/var/lib/dpkg/info/rabbitmq-server.list" "$4/var/lib/dpkg/info/elixir.list"
