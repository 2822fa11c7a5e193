"""How many junctions networks have, against an answer key that was read off their architectures."""

import json
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import torchvision
import transformers
from torch import nn

import winze

KEY = {
    (entry["source"], entry["network"]): entry
    for entry in json.loads((Path(__file__).parent / "counts.json").read_text())
    if "network" in entry
}
# DeBERTa has functions in TorchScript
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning")
SMALL = 64  # pixels; enough for every network that takes images of any size
FAST = {
    "torchvision": """
    squeezenet1_1 densenet121 shufflenet_v2_x0_5 mobilenet_v2 mobilenet_v3_small mnasnet0_5 resnet18 resnet50
    regnet_x_400mf regnet_y_400mf efficientnet_b0 convnext_tiny swin_t vit_b_16
    """,
    "timm": """
    resnet10t ecaresnet26t seresnet18 resnetblur18 resnest14d resnetv2_18 skresnet18 legacy_seresnet18 test_resnet
    test_vit test_vit2 test_vit3 test_convnext test_convnext2 test_byobnet test_mambaout test_efficientnet
    test_nfnet pvt_v2_b0 fasternet_t0 levit_128s mobilevit_xxs mobilevitv2_050 poolformerv2_s12 dpn48b
    xcit_nano_12_p16_224 inception_next_atto regnety_002 hardcorenas_a mobilenetv4_conv_small lcnet_035 starnet_s1
    cpubone_nano iformer_t dla34 gmlp_ti16_224 hrnet_w18_small repvgg_a0 ghostnet_100 lcnetv2_small
    """,
    "transformers": """
    BertModel ViTModel GPT2Model LlamaModel GPTNeoXModel DistilBertModel SwinModel ResNetModel T5Model
    GPTNeoModel MPNetModel XLNetModel GPTJModel MambaModel MixtralModel DebertaModel WhisperModel SegformerModel
    CLIPVisionModel Wav2Vec2Model FalconModel MobileBertModel
    """,
}
# one or two sizes of each family; benchmarks/reach.py counts further ones of counts.json
SLOW = {
    "torchvision": """
    squeezenet1_0 googlenet mobilenet_v3_large resnet34 resnext50_32x4d efficientnet_v2_s
    """,
    "timm": """
    resnet18 resnet34 resnet50 resnet50d resnext50_32x4d resnet26 vit_tiny_patch16_224 vit_small_patch16_224
    deit_tiny_patch16_224 deit3_small_patch16_224 swin_tiny_patch4_window7_224 convnext_tiny convnext_atto
    mixer_s32_224 resmlp_12_224 gmixer_12_224 efficientnet_b0 efficientnetv2_rw_t mobilenetv2_100
    mobilenetv3_small_100 mobilenetv3_large_100 regnetx_002 cspresnet50 resnetv2_50 cait_xxs24_224 twins_pcpvt_small
    twins_svt_small visformer_tiny coatnet_pico_rw_224 davit_tiny repvit_m1 efficientformer_l1 efficientvit_b0
    tiny_vit_5m_224 hiera_tiny_224 convmixer_768_32 caformer_s18 convformer_s18 inception_next_tiny mambaout_femto
    sequencer2d_s convit_tiny csatv2 sam2_hiera_tiny lowformer_b0 pit_ti_224 shvit_s1 vit_tiny_r_s16_p8_224
    legacy_xception xception41 ese_vovnet39b resnet32ts gernet_s rexnet_100 mnasnet_small rdnet_tiny poolformer_s12
    res2net50_14w_8s mobileone_s0 edgenext_xx_small efficientformerv2_s0 efficientvim_m1 efficientvit_m0 fastvit_t8
    focalnet_tiny_srf hgnetv2_b0 mvitv2_tiny tnt_s_patch16_224 swiftformer_xs repghostnet_050 convnextv2_atto
    ghostnetv2_100 ese_vovnet19b_dw gcresnet33ts regnetz_005 efficientnet_es efficientnet_lite0 resnet50_gn
    resnet14t nf_resnet26 nf_regnet_b0 resnetv2_50d cs3darknet_s darknet17 cspdarknet53 lambda_resnet26t hgnet_tiny
    fbnetc_100 mixnet_s tinynet_e semnasnet_075 spnasnet_100 deit_tiny_distilled_patch16_224 levit_conv_128s
    skresnet50 vit_small_patch16_dinov3 coatnext_nano_rw_224 vit_srelpos_small_patch16_224 xcit_tiny_12_p16_224
    vovnet39a repvgg_b0 test_efficientnet_gn mobilenetv1_100 efficientnet_cc_b0_4e
    """,
    "transformers": """
    RobertaModel ElectraModel DeiTModel Dinov2Model ConvNextModel Qwen2Model OPTModel AlbertModel BartModel
    XGLMModel RwkvModel Gemma2Model MptModel Mamba2Model DebertaV2Model HubertModel CLIPTextModel LongformerModel
    PegasusModel MT5Model SwitchTransformersModel
    """,
}
# these take images of their own size only
WHOLE = {
    "cait_xxs24_224",
    "coatnet_pico_rw_224",
    "coatnext_nano_rw_224",
    "convit_tiny",
    "deit3_small_patch16_224",
    "deit_tiny_distilled_patch16_224",
    "deit_tiny_patch16_224",
    "efficientformer_l1",
    "efficientformerv2_s0",
    "efficientvit_m0",
    "gmixer_12_224",
    "gmlp_ti16_224",
    "hiera_tiny_224",
    "levit_128s",
    "levit_conv_128s",
    "mixer_s32_224",
    "mvitv2_tiny",
    "pit_ti_224",
    "resmlp_12_224",
    "swin_tiny_patch4_window7_224",
    "test_vit3",
    "tnt_s_patch16_224",
    "visformer_tiny",
    "vit_b_16",
    "vit_small_patch16_224",
    "vit_srelpos_small_patch16_224",
    "vit_tiny_patch16_224",
    "vit_tiny_r_s16_p8_224",
}


def chosen(lists: dict[str, str]) -> list[tuple[str, str]]:
    return [(source, network) for source, names in lists.items() for network in names.split()]


def build(source: str, network: str) -> nn.Module:
    if source == "torchvision":
        extra: dict[str, Any] = {"init_weights": False} if network in ("googlenet", "inception_v3") else {}
        return torchvision.models.get_model(network, **extra)
    if source == "timm":
        return timm.create_model(network)
    kind = getattr(transformers, network)
    return kind(kind.config_class(**KEY[source, network]["config"]))


def check_count(source: str, network: str) -> None:
    whole = source == "transformers" or network in WHOLE
    found = winze.junctions(build(source, network), example=None if whole else torch.randn(2, 3, SMALL, SMALL))
    assert len(found) == KEY[source, network]["junctions"], KEY[source, network]["why"]


@pytest.mark.parametrize(("source", "network"), chosen(FAST))
def test_the_number_of_junctions_is_the_one_counted_by_hand(source: str, network: str) -> None:
    check_count(source, network)


@pytest.mark.slow
@pytest.mark.parametrize(("source", "network"), chosen(SLOW))
def test_the_number_of_junctions_is_the_one_counted_by_hand_in_further_networks(source: str, network: str) -> None:
    check_count(source, network)


def test_no_network_is_counted_twice() -> None:
    names = chosen(FAST) + chosen(SLOW)
    assert len(set(names)) == len(names)
