#!/usr/bin/env bash
# Bundles the page's editor from the pinned packages into static/vendor/editor.js, with their licences beside it.
# Only needed after a change of editor.js or package.json here: the result is in the repository.
set -euo pipefail
cd "$(dirname "$0")"

npm ci --silent
# esbuild's program comes from its own package, in case scripts of packages are not run.
node node_modules/esbuild/install.js
mkdir -p ../vendor
npx esbuild editor.js --bundle --minify --format=esm --target=es2022 --charset=utf8 --legal-comments=none \
  --banner:js="// CodeMirror and its parts, made by static/editor/build.sh; licences are in editor.LICENSES.txt." \
  --outfile=../vendor/editor.js

# Whatever is in the bundle, by what npm says was installed for it.
for licence in node_modules/{@codemirror,@lezer,@marijn,crelt,style-mod,w3c-keyname}{,/*}/LICENSE*; do
  [[ -e $licence ]] || continue
  package=${licence#node_modules/}
  printf '=== %s\n\n%s\n\n' "${package%/*}" "$(cat "$licence")"
done >../vendor/editor.LICENSES.txt
