from torch.utils._python_dispatch import TorchDispatchMode
class NotCovered(RuntimeError): ...
class Watcher(TorchDispatchMode):
    def __init__(self, allow): super().__init__(); self.allow=allow
    def __torch_dispatch__(self, func, types, args=(), kwargs=None): return func(*args, **(kwargs or {}))
