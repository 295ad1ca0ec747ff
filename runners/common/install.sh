#!/bin/sh
# Installs what programs of any language expect of their system: certificates, a name for their user whatever its
# number, and, unless $1 is "slim", fonts and locales. Every runner image has this as its first layer.
set -eu
here=$(dirname "$0")

LOCALES="ar_SA de_DE en_GB en_US es_ES fr_FR hi_IN it_IT ja_JP ko_KR nl_NL pl_PL pt_BR ru_RU sv_SE tr_TR vi_VN zh_CN"
# The scripts that neither DejaVu nor WenQuanYi has, of a package with 400 files.
SCRIPTS="Arabic Armenian Bengali Devanagari Ethiopic Georgian Gujarati Gurmukhi Hebrew Kannada Khmer Lao Malayalam Myanmar Sinhala Tamil Telugu Thai"

install() { apt-get install -y --no-install-recommends "$@"; }

# Programs run as 1000, or as any other number that this host gives to a conversation.
name_users() {
    echo 'sandbox:x:1000:1000::/tmp:/bin/bash' >>/etc/passwd
    echo 'sandbox:x:1000:' >>/etc/group
    install libnss-unknown
}

install_fonts() {
    install fontconfig fonts-dejavu-core fonts-liberation fonts-noto-core fonts-symbola fonts-wqy-microhei
    mkdir /opt/fonts
    for script in $SCRIPTS; do
        mv "/usr/share/fonts/truetype/noto/NotoSans$script-Regular.ttf" \
            "/usr/share/fonts/truetype/noto/NotoSans$script-Bold.ttf" /opt/fonts/
    done
    rm -r /usr/share/fonts/truetype/noto
    mv /opt/fonts /usr/share/fonts/truetype/noto
    install python3-fonttools
    python3 "$here/repair_font.py" \
        /usr/share/fonts/truetype/wqy/wqy-microhei.ttc /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
    apt-get purge -y --auto-remove python3-fonttools
    mkdir /usr/share/fonts/names
    grep -v '^#' "$here/font-files" | while read -r file names; do
        test -e "/usr/share/fonts/$file"
        for name in $names; do ln -s "../$file" "/usr/share/fonts/names/$name"; done
    done
    # The links are for those who look for files: fontconfig has the files themselves.
    awk -F'|' 'BEGIN { print "<?xml version=\"1.0\"?>\n<!DOCTYPE fontconfig SYSTEM \"fonts.dtd\">\n<fontconfig>"
            print "<selectfont><rejectfont><glob>/usr/share/fonts/names/*</glob></rejectfont></selectfont>" }
        !/^#/ { for (i = 2; i <= NF; i++) printf "<alias binding=\"same\"><family>%s</family>" \
            "<accept><family>%s</family></accept></alias>\n", $i, $1 }
        END { print "</fontconfig>" }' "$here/font-names" >/etc/fonts/local.conf
    fc-cache --system-only
}

make_locales() {
    install locales
    for locale in $LOCALES; do localedef -i "$locale" -f UTF-8 "$locale.UTF-8"; done
    mv /usr/lib/locale/locale-archive /opt/ # the package takes it along when it goes
    apt-get purge -y --auto-remove locales
    mv /opt/locale-archive /usr/lib/locale/
}

apt-get update
install ca-certificates
name_users
if [ "${1:-}" != slim ]; then
    install_fonts
    make_locales
fi
apt-get clean
rm -rf /var/lib/apt/lists/* /var/log/*
