import hypothesis

hypothesis.settings.register_profile("bitfold", deadline=None, derandomize=True, database=None, max_examples=200)
hypothesis.settings.load_profile("bitfold")
