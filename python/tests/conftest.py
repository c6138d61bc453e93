import os

import hypothesis

# Before torch is loaded: its threads sleep where they wait for others, which in loops would take the cores from tests beside these.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# And what torch warns of here, as it will be an error, is one, as it is where CI is set.
os.environ.setdefault("TORCHINDUCTOR_ERROR_ON_CUSTOM_OP_ALIASING", "1")

hypothesis.settings.register_profile("bitfold", deadline=None, derandomize=True, database=None, max_examples=200)
hypothesis.settings.load_profile("bitfold")
