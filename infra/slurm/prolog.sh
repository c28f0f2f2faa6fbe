#!/bin/sh
# Slurm's prolog (Prolog= in slurm.conf): a job starts only on a node that lastbeat has checked. Any exit status but 0
# drains the node, and the job goes back to the queue.
LASTBEAT=/opt/lastbeat/bin/lastbeat
# GPUs that each node must have.
GPUS=0

exec "$LASTBEAT" check node --prolog --gpus "$GPUS"
