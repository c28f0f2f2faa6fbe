#!/bin/sh
# The harmless job of `lastbeat drill`: it counts steps, writes its own output alone, and shows one fault.
#
#   job.sh FAULT TIMES LIMITED PYTHON
#
# In its first TIMES attempts it does what FAULT names, after some steps. LIMITED: "limited" where the scheduler may
# limit its memory. Lines that begin with "drill" tell the drill what happened when.
fault=$1 times=$2 limited=$3 python=$4
attempt=${LASTBEAT_RESTART_COUNT:-0}
# Each attempt counts on from a number of its own: the same fault at the same step again would rightly end the restarts.
step=$((attempt * 100000))
last=$((step + 4500))
faulty=$((step + 10))
said() { echo "drill $(date +%s.%N) $*"; }
# If all that looks after it is gone, it ends by itself, after a quarter of an hour.
stand_still() { i=0; while [ $i -lt 900 ]; do i=$((i + 1)); sleep 1; done; exit 1; }

said "began attempt=$attempt pid=$$ host=$(hostname) requeued=${SLURM_RESTART_COUNT:-0}"
while [ $step -lt $last ]; do
    step=$((step + 1))
    echo " iteration $step/ 1000000 | consumed samples: $step | lm loss: 2.500000E+00 | drill $(date +%s.%N)"
    if [ $step -eq $faulty ] && [ "$attempt" -lt "$times" ]; then
        case $fault in
        hang)
            # What Python's faulthandler writes when nothing has moved for ten minutes.
            echo 'Timeout (0:10:00)!'
            echo 'Thread 0x00007f2a3c1f9740 (most recent call first):'
            echo '  File "/opt/megatron/core/pipeline_parallel/p2p_communication.py", line 312 in _communicate'
            said "fault"
            stand_still
            ;;
        nccl)
            echo '[default0]:NCCL ERROR timeout'
            said "fault"
            stand_still
            ;;
        oom)
            said "fault"
            if [ "$limited" = limited ]; then
                # More than the scheduler gave it: tail keeps a line until it ends, and this one does not.
                head -c 600000000 /dev/zero | tail -n 1 >/dev/null && said "memory unlimited"
            fi
            ulimit -v 600000
            "$python" -c 'kept = [bytearray(1 << 24) for _ in range(64)]'
            if [ $? -ne 1 ]; then
                # Not even that limits memory, or there is no Python: then in the words of a framework.
                said "memory told"
                echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.'
            fi
            exit 1
            ;;
        esac
    fi
    sleep 0.2
done
said "ended"
