#!/usr/bin/env bash
# Makes xscl/service/static/codemirror.min.js and its licence again, from the versions that package-lock.json names.
# It needs npm.  Nobody who uses xscl runs it: the built file is part of the repository.
set -euo pipefail
cd "$(dirname "$0")"
files=../../xscl/service/static

npm ci --silent --ignore-scripts
node node_modules/esbuild/install.js
node_modules/.bin/esbuild entry.js --bundle --minify --format=iife --global-name=CM --target=es2020 \
  --legal-comments=none --charset=utf8 --outfile="$files/codemirror.min.js"

# Everything that is in the built file, with its version and licence.
{
  for folder in node_modules/@codemirror/* node_modules/@lezer/* node_modules/@marijn/* node_modules/{crelt,style-mod,w3c-keyname}; do
    node -p "const it = require('./$folder/package.json'); it.name + ' ' + it.version + ' (' + it.license + ')'"
    grep -m 1 '^Copyright' "$folder/LICENSE"
  done
  printf '\n%s\n\n' "All of these have the following licence."
  grep -v '^Copyright' node_modules/@codemirror/view/LICENSE
} >"$files/codemirror-LICENSE.txt"
