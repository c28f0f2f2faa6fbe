#!/bin/sh
# Slurm's epilog (Epilog= in slurm.conf): a node that a job left broken is drained before the next job. A node that could
# not be checked, as when lastbeat is missing, stays in use: the prolog decides.
LASTBEAT=/opt/lastbeat/bin/lastbeat
# GPUs that each node must have.
GPUS=0

"$LASTBEAT" check node --gpus "$GPUS"
[ $? -ne 2 ]
