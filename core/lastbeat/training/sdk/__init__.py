"""What runs inside training: it reports the run, and never raises into training, blocks it or slows it."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.training.sdk import agreement as agreement
    from lastbeat.training.sdk import configuration as configuration
    from lastbeat.training.sdk import exec_in_place as exec_in_place
    from lastbeat.training.sdk import exit_signals as exit_signals
    from lastbeat.training.sdk import flight_recorder as flight_recorder
    from lastbeat.training.sdk import learning as learning
    from lastbeat.training.sdk import log_shipping as log_shipping
    from lastbeat.training.sdk import notebook as notebook
    from lastbeat.training.sdk import process_exit as process_exit
    from lastbeat.training.sdk import raising as raising
    from lastbeat.training.sdk import run_ids as run_ids
    from lastbeat.training.sdk import simulated_faults as simulated_faults
    from lastbeat.training.sdk import stacks as stacks
    from lastbeat.training.sdk import step_times as step_times
    from lastbeat.training.sdk import stragglers as stragglers
    from lastbeat.training.sdk import termination as termination
    from lastbeat.training.sdk import time_limit as time_limit

# Few runs and processes need these.
__getattr__ = lazy_face(__name__)
