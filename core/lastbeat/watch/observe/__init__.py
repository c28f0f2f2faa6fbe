"""From a store to an observation: what was seen of a run, or that it could not be seen."""
