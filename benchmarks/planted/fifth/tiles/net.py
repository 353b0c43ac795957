from torch import nn


class Res(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                                  nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(x + self.body(x))


def land_net(kinds, width, depth):
    layers = [nn.Conv2d(4, width, 3, stride=2, padding=1)]
    for stage in range(3):
        layers += [Res(width) for _ in range(depth)]
        if stage < 2:
            layers.append(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1))
            width *= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, kinds))
