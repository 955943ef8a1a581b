"""The models of PyTorch's own tests of quantization-aware training (torch/testing/_internal/common_quantization.py, test_quantize_fx.py),
written anew without the stubs of eager mode, which FX does not want."""

import torch
import torch.ao.quantization as ao
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization import QConfigMapping, get_default_qat_qconfig, get_default_qat_qconfig_mapping

from case import integers, normal
from training_cases import training_case


class ManualLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(5, 1)
        self.fc2 = nn.Linear(1, 10)

    def forward(self, x):
        return self.fc2(self.fc1(x))


class ManualDropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(5, 1)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(self.fc1(x))


class ManualConvLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 1, kernel_size=3)
        self.fc1 = nn.Linear(64, 10)
        self.fc2 = nn.Linear(10, 10)

    def forward(self, x):
        return self.fc2(self.fc1(self.conv(x).view(-1, 64).contiguous()))


class DeFusedEmbeddingBagLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(num_embeddings=10, embedding_dim=12)
        self.linear = nn.Linear(12, 1)

    def forward(self, indices):
        return self.linear(torch.sum(self.emb(indices), dim=1))


class SubModelForFusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 1, bias=False)
        self.bn = nn.BatchNorm2d(2)

    def forward(self, x):
        return self.bn(self.conv(x))


class SubModelWithoutFusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 1, bias=False)
        self.relu = nn.ReLU(inplace=False)

    def forward(self, x):
        return self.relu(self.conv(x))


class ForFusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv3 = nn.Conv1d(3, 3, 2)
        self.bn3 = nn.BatchNorm1d(3)
        self.relu4 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(3, 2, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(2)
        self.relu1 = nn.ReLU(inplace=True)
        self.sub1 = SubModelForFusion()
        self.sub2 = SubModelWithoutFusion()
        self.fc = nn.Linear(36, 10)
        self.conv2 = nn.Conv3d(3, 2, (1, 1, 1), bias=False)
        self.relu2 = nn.ReLU(inplace=False)
        self.bn2 = nn.BatchNorm3d(2)
        self.relu3 = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.relu4(self.bn3(self.conv3(x.squeeze(2)))).unsqueeze(2)
        y = self.relu3(self.bn2(self.relu2(self.conv2(x.unsqueeze(2)))))
        x = self.sub2(self.sub1(self.relu1(self.bn1(self.conv1(x)))))
        return self.fc(x.reshape(-1, 36).contiguous()), y


class ConvBNReLU(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, 3, 1, 1, bias=False), nn.BatchNorm2d(3), nn.ReLU(inplace=False))


class WithSequentialFusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 3, 1)
        self.relu1 = nn.ReLU(inplace=False)
        self.features = nn.Sequential(ConvBNReLU(), ConvBNReLU(), ConvBNReLU())
        self.classifier = nn.Sequential(nn.Linear(300, 10), nn.ReLU(inplace=False))
        self.seq = nn.Sequential()

    def forward(self, x):
        x = self.features(self.relu1(self.conv1(x)))
        return self.seq(self.classifier(torch.reshape(x, (-1, 3 * 10 * 10))))


class ForFusionWithBias(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 2, 5, bias=True)
        self.bn1 = nn.BatchNorm2d(2)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(2, 2, 1, bias=True)
        self.bn2 = nn.BatchNorm2d(2)

    def forward(self, x):
        return self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))


class ForLinearBNFusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(20, 10)
        self.bn = nn.BatchNorm1d(10)
        nn.init.uniform_(self.bn.weight)
        nn.init.uniform_(self.bn.bias)

    def forward(self, x):
        return self.bn(self.fc(x))


class ResNetBase(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 3, (1, 1), bias=False)
        self.bn1 = nn.BatchNorm2d(3)
        self.relu1 = nn.ReLU()
        self.relu2 = nn.ReLU()
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(3, 1)

    def forward(self, x):
        out = self.relu1(self.bn1(self.conv1(x)))
        out = self.relu2(torch.add(out, x))
        return self.fc(torch.flatten(self.avgpool(out), 1))


class MultipleOps(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 3, (1, 1), bias=False)
        self.conv2 = nn.Conv2d(3, 3, (1, 1), bias=False)
        self.bn1 = nn.BatchNorm2d(3)
        self.relu1 = nn.ReLU()
        self.relu2 = nn.ReLU()
        self.maxpool = nn.MaxPool2d((4, 4))
        self.fc = nn.Linear(12, 6)

    def forward(self, x):
        out = self.relu1(self.bn1(self.conv1(x)))
        out = self.maxpool(self.relu2(torch.add(out, self.conv2(x))))
        out = F.max_pool2d(self.conv2(out), 2, 2)
        return self.fc(torch.cat([out, out]).reshape(-1, 3 * 2 * 2))


class FunctionalLinears(nn.Module):
    """test_qat_functional_linear"""

    def __init__(self):
        super().__init__()
        self.w1, self.b1 = nn.Parameter(torch.randn(5, 5)), nn.Parameter(torch.randn(5))
        self.w2, self.b2 = nn.Parameter(torch.randn(5, 5)), nn.Parameter(torch.randn(5))
        self.mods1 = nn.Linear(5, 5)

    def forward(self, x):
        x = F.linear(F.linear(x, self.w1, self.b1), self.w2, self.b2)
        return self.mods1(x)


class Prelu(nn.Module):
    """test_prelu"""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)
        self.op = nn.PReLU(num_parameters=1)

    def forward(self, x):
        return self.op(self.conv(x))


def of(qconfig):
    return lambda engine: QConfigMapping().set_global(qconfig)


def with_embeddings(engine):
    return get_default_qat_qconfig_mapping(engine).set_object_type(nn.Embedding, ao.default_embedding_qat_qconfig)


FIVE, PICTURE = normal(6, 5), normal(2, 3, 10, 10)
training_case("pytorch_manual_linear", ManualLinear, FIVE)
training_case("pytorch_manual_linear_dynamic", ManualLinear, FIVE, mapping=of(ao.default_dynamic_qat_qconfig), engines=("x86", "fbgemm", "qnnpack"))
training_case("pytorch_manual_dropout", ManualDropout, FIVE)
training_case("pytorch_manual_conv_linear", ManualConvLinear, PICTURE)
training_case("pytorch_manual_conv_linear_symmetric", ManualConvLinear, PICTURE, mapping=of(ao.qconfig.default_symmetric_qnnpack_qat_qconfig), engines=("qnnpack",))
training_case("pytorch_embedding_linear", DeFusedEmbeddingBagLinear, integers(10, 4, 3), mapping=with_embeddings)
training_case("pytorch_for_fusion", ForFusion, normal(4, 3, 1, 10), engines=("x86", "fbgemm", "onednn"))
training_case("pytorch_sequential_fusion", WithSequentialFusion, PICTURE)
training_case("pytorch_fusion_with_bias", ForFusionWithBias, PICTURE)
training_case("pytorch_linear_bn_fusion", ForLinearBNFusion, normal(6, 20))
training_case("pytorch_resnet_base", ResNetBase, PICTURE)
training_case("pytorch_multiple_ops", MultipleOps, PICTURE, lowered_difference="D-38: a module that is called twice has one output scale in FX")
training_case("pytorch_functional_linears", FunctionalLinears, FIVE)
training_case("pytorch_prelu", Prelu, PICTURE, lowered_difference="section 6: quantized::prelu is wrong once a slope's code is above 127")
training_case(
    "pytorch_skip_by_name",
    ForFusionWithBias,
    PICTURE,
    mapping=lambda engine: QConfigMapping().set_global(get_default_qat_qconfig(engine)).set_module_name("conv2", None),
)
