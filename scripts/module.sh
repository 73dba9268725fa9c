#!/usr/bin/env bash
# module.sh HOST/ORG/NAME: renames the module in go.mod files, imports, lint rules and docs.
#
#   scripts/module.sh example.org/team/fanfare     or: make module MODULE=example.org/team/fanfare
#
# Only the module gets the new name: binaries, variables and tables are still called fanfare.
# The script needs git and Go, and may be run again with another name.
set -euo pipefail
cd "$(dirname "$0")/.."

new=${1:-}
if ! [[ $new =~ ^[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)+(/[a-zA-Z0-9._~-]+)+$ ]]; then
  echo "module.sh: \"$new\" is not a module path such as example.org/team/fanfare" >&2
  exit 2
fi
old=$(sed -n 's/^module //p' go.mod)
old=${old//./\\.}

# A package is named by the module and a folder of the module; cmd/fanfare is not a package.
folders=$(git ls-files -co --exclude-standard '*.go' | sed -n 's#/.*##p' | sort -u | paste -sd'|' -)
before='(^|[^A-Za-z0-9_./-])'
after="/($folders|\"|\\.\\.\\.)"

git ls-files -coz --exclude-standard | xargs -0 grep -lIE "$before$old$after" -- | while read -r file; do
  sed -i.renamed -E -e "s#$before$old$after#\\1$new/\\2#g" -e "s#-(require|replace)=$old([@=])#-\\1=$new\\2#g" "$file"
  rm "$file.renamed"
done
# The package at the root is named by the module alone.
git ls-files -coz --exclude-standard '*.go' | xargs -0 grep -lE "^(import |	)\"$old\"\$" -- | while read -r file; do
  sed -i.renamed -E "s#^(import |	)\"$old\"\$#\\1\"$new\"#" "$file"
  rm "$file.renamed"
done
git ls-files -co --exclude-standard 'go.mod' '*/go.mod' | while read -r file; do
  sed -i.renamed -E "s#^(module|require|replace) $old(/| |\$)#\\1 $new\\2#" "$file"
  rm "$file.renamed"
done
gofmt -w $(git ls-files -co --exclude-standard '*.go')
echo "the module is $new; commit the change, then run make lint"
