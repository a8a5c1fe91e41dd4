"""The two workloads, in PyTorch: the same shapes, data and options as benchmarks/step/workloads.cpp."""

import math

import torch
from torch import nn
from torch.nn import functional as F

CONTEXT = 128
VOCABULARY = 256


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ln2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 4 * width)
        self.fc_out = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(batch, time, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(attended.transpose(1, 2).reshape(batch, time, width))
        return x + self.fc_out(F.gelu(self.fc(self.ln2(x))))


class MiniGpt(nn.Module):
    def __init__(self, layers=6, width=384, heads=6):
        super().__init__()
        self.token_embedding = nn.Embedding(VOCABULARY, width)
        self.position_embedding = nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if name.endswith(".bias"):
                    parameter.zero_()
                elif parameter.dim() > 1:
                    residual = name.endswith(("proj.weight", "fc_out.weight"))
                    parameter.normal_(0.0, 0.02 / (math.sqrt(2.0 * layers) if residual else 1.0))

    def forward(self, windows):
        tokens = windows[:, :-1]
        x = self.token_embedding(tokens) + self.position_embedding(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.token_embedding.weight)
        return F.cross_entropy(logits.reshape(-1, VOCABULARY), windows[:, 1:].reshape(-1))

    @staticmethod
    def micro_batch(generator):
        return torch.randint(0, VOCABULARY, (4, CONTEXT + 1), generator=generator)


class Mlp(nn.Module):
    INPUT, HIDDEN, OUTPUT, BATCH = 1280, 4096, 1024, 4

    def __init__(self):
        super().__init__()
        widths = [self.INPUT] + [self.HIDDEN] * 4 + [self.OUTPUT]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, x):
        x = F.relu(self.layers[0](x))
        for layer in self.layers[1:-1]:
            x = x + F.relu(layer(x)) * (1.0 / len(self.layers))
        return self.layers[-1](x).square().mean()

    @classmethod
    def micro_batch(cls, generator):
        return torch.randn(cls.BATCH, cls.INPUT, generator=generator)


WORKLOADS = {"minigpt": MiniGpt, "mlp": Mlp}
