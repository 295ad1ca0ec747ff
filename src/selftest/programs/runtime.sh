# Uses its workspace, then refuses to end.
trap '' HUP INT QUIT TERM USR1 USR2
cd /data
echo lists *
rev_of() { local text=$1 out='' ; while [ -n "$text" ]; do out=${text:0:1}$out; text=${text:1}; done; printf %s "$out"; }
rev_of "$(cat seen.txt)" >written.txt
echo wrote
while :; do sleep 60; done
