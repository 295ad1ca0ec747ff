#!/bin/sh
# Drops from the virtual environment given what no program needs: tests, headers, type stubs, copies.
set -eu
cd "$1"/lib/python3*/site-packages

find . -type d -name tests -prune -exec rm -r {} +
find . -type f \( -name '*.pyi' -o -name '*.pxd' -o -name '*.pyx' -o -name '*.pxi' \) -delete
rm -r pyarrow/include pyarrow/src

# The wheel holds these libraries three times, under the names that symbolic links would have.
for library in pyarrow/*.so.*.*.*; do
    soname=${library%.*.*}
    ln -sf "$(basename "$soname")" "$library"
    ln -sf "$(basename "$soname")" "${soname%.*}"
done
