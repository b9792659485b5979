#!/bin/sh
# Makes an image of this machine's own shell, coreutils and Python, since tests fetch none. Prints its name.
set -eu
engine=$(command -v podman || command -v docker) || { echo "neither podman nor docker is installed" >&2; exit 1; }
name=localhost/ct-environment-test:3
"$engine" image inspect "$name" >/dev/null 2>&1 && { echo "$name"; exit; }

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/usr/bin" "$root/usr/lib" "$root/etc" "$root/tmp" "$root/var/tmp" "$root/proc" "$root/sys" "$root/dev" \
    "$root/run" "$root/root" "$root/home" "$root/app"
chmod 1777 "$root/tmp" "$root/var/tmp"
for link in bin lib lib64; do ln -s "usr/$link" "$root/$link"; done

# A program or library, with the libraries it needs, below /usr as on any merged system.
take() {
    for file in "$1" $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*' || true); do
        inside=$root/usr/${file#/}
        case $file in /usr/*) inside=$root$file ;; esac
        [ -e "$inside" ] || { mkdir -p "${inside%/*}"; cp -L "$file" "$inside"; }
    done
}
for program in awk base64 basename bash cat chmod cp cut date dd df dirname du echo env expr false find grep head id kill ln ls \
    mkdir mkfifo mktemp mv nohup od paste printf ps readlink rm sed seq setsid sh sha256sum sleep sort stat tail tee test \
    timeout touch tr true uniq wc xargs yes; do
    path=/usr/bin/$program
    [ -e "$path" ] || path=/bin/$program
    [ -e "$path" ] || { echo "$program is missing" >&2; exit 1; }
    take "$(readlink -f "$path")"
    [ -e "$root/usr/bin/$program" ] || cp -L "$path" "$root/usr/bin/$program"
done
python=$(readlink -f /usr/bin/python3) || { echo "/usr/bin/python3 is missing" >&2; exit 1; }
take "$python"
ln -s "${python##*/}" "$root/usr/bin/python3"
version=${python##*/}
cp -a "/usr/lib/$version" "$root/usr/lib/"
rm -rf "$root/usr/lib/$version/test" "$root/usr/lib/$version"/config-*
for module in "$root/usr/lib/$version"/lib-dynload/*.so; do take "${module#"$root"}"; done
echo 'from the image' >"$root/app/from-image"

tar -C "$root" -cf "$root.tar" . && "$engine" import "$root.tar" "$name" >/dev/null
rm -f "$root.tar"
echo "$name"
