# shellcheck shell=bash
# Uses its workspace, then refuses to end.
trap '' HUP INT QUIT TERM USR1 USR2
cd /data || exit
# shellcheck disable=SC2046,SC2012 # one line
echo lists $(ls -l | tail -n +2)
text=$(cat seen.txt)
turned=
while [ -n "$text" ]; do
    turned=${text:0:1}$turned
    text=${text:1}
done
printf %s "$turned" >written.txt
echo wrote
while :; do sleep 60; done
