# Set-up for examples: a broker at the default address, a run, and files of those names.
bellows broker --listen 127.0.0.1:5672 > /dev/null &
broker=$!
sleep 1
for side in before after; do
bellows demo --quiet --no-profile --repeat 2 --tag $side --set phases.warmup=0s --set phases.measure=1s > /dev/null
done
bellows demo --quiet > /dev/null
set -- runs/*/latency.hlog
cp $1 a1.hlog; cp $2 a2.hlog; cp $3 b1.hlog; cp $4 b2.hlog
cp $1 before.hlog; cp $3 after.hlog
cp runs/*/profile.pb.gz runs/*/cpu.folded .
cp profile.pb.gz before.pb.gz
cp profile.pb.gz after.pb.gz
printf 'beam.smp 7/8 [000] 1.5: 1001001 cpu-clock:\n\t10 main+0x1 (/bin/x)\n\n' > script.txt
printf '[[fault]]\nkind = "lose"\nevery = 100\n' > faults.toml
printf 'token' > token
bellows client queue://page --quiet --no-archive --metrics 15692 --rate 10 > /dev/null 2>&1 &
sleep 1
printf '[broker]\nkind = "embedded"\n[[load]]\nrate = 100\n' > mine.toml
