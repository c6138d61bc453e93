import bitfold
import torch

torch.manual_seed(0)
x = torch.rand(10_000_000) - 0.5
for threads in range(1, 8):
    torch.set_num_threads(threads)
    print(threads, x.sum().item(), bitfold.sum(x).item())
