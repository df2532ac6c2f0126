"""The nets of `real_nets.py`: each entry is a function that makes a net with random weights."""

from typing import NamedTuple

import torch
from torch import nn

VOCABULARY = 99


class Net(NamedTuple):
    module: nn.Module
    # Makes the arguments for a number of rows: a tuple, or a dict for keywords.
    arguments: object
    # Dimensions of an argument, by its name or position, that vary besides that of the batch.
    varying: dict = {}


def floats(*shape):
    return lambda rows: (torch.randn(rows, *shape),)


def image(module, side=64, channels=3):
    return Net(module, floats(channels, side, side))


def tokens(length=7):
    def arguments(rows):
        mask = torch.ones(rows, length, dtype=torch.int64)
        mask[::2, length - 2 :] = 0
        return {"input_ids": torch.randint(3, VOCABULARY, (rows, length)), "attention_mask": mask}

    return arguments


def torchvision(name, side=64, **options):
    import torchvision.models as models

    return image(models.get_model(name, weights=None, num_classes=10, **options), side)


def timm(name, side=64, **options):
    import timm

    return image(timm.create_model(name, pretrained=False, num_classes=10, **options), side)


def transformer(kind, config, varying=True, **options):
    """A net of transformers over tokens, of a small configuration."""
    import transformers

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    settings = getattr(transformers, config)(**{"vocab_size": VOCABULARY, "use_cache": False, **small, **options})
    settings.use_cache = False
    module = getattr(transformers, kind)(settings)
    sizes = {"input_ids": (1,), "attention_mask": (1,)} if varying else {}
    return Net(module, tokens(), sizes)


def vision_transformer(kind, config, side=32, **options):
    import transformers

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    settings = getattr(transformers, config)(**{**small, "image_size": side, "patch_size": 8, **options})
    module = getattr(transformers, kind)(settings)
    return Net(module, lambda rows: {"pixel_values": torch.randn(rows, 3, side, side)})


def t5_encoder():
    import transformers

    settings = transformers.T5Config(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
    return Net(transformers.T5EncoderModel(settings), tokens(), {"input_ids": (1,), "attention_mask": (1,)})


def distilbert():
    import transformers

    settings = transformers.DistilBertConfig(vocab_size=VOCABULARY, dim=32, n_layers=2, n_heads=4, hidden_dim=48)
    module = transformers.DistilBertForSequenceClassification(settings)
    return Net(module, tokens(), {"input_ids": (1,), "attention_mask": (1,)})


def gpt2():
    import transformers

    settings = transformers.GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, use_cache=False)
    return Net(transformers.GPT2LMHeadModel(settings), tokens(), {"input_ids": (1,), "attention_mask": (1,)})


def bart():
    import transformers

    settings = transformers.BartConfig(
        vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, use_cache=False)
    return Net(transformers.BartForSequenceClassification(settings).model.encoder, tokens())


def clip_text():
    import transformers

    settings = transformers.CLIPTextConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        eos_token_id=2)
    return Net(transformers.CLIPTextModelWithProjection(settings), tokens())


def segformer():
    import transformers

    settings = transformers.SegformerConfig(
        hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 2, 4], depths=[1, 1, 1, 1], decoder_hidden_size=16)
    module = transformers.SegformerForSemanticSegmentation(settings)
    return Net(module, lambda rows: {"pixel_values": torch.randn(rows, 3, 64, 64)})


def swin():
    import transformers

    settings = transformers.SwinConfig(image_size=64, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
    return Net(transformers.SwinForImageClassification(settings), lambda rows: {"pixel_values": torch.randn(rows, 3, 64, 64)})


def yolos():
    return vision_transformer("YolosForObjectDetection", "YolosConfig", image_size=[32, 32], num_detection_tokens=5)


def detr():
    import transformers

    backbone = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], out_features=["stage4"])
    settings = transformers.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone, d_model=32,
        encoder_layers=1, decoder_layers=1, encoder_ffn_dim=48, decoder_ffn_dim=48, num_queries=6,
        encoder_attention_heads=4, decoder_attention_heads=4)
    return Net(transformers.DetrForObjectDetection(settings), lambda rows: {"pixel_values": torch.randn(rows, 3, 64, 64)})


def whisper_encoder():
    import transformers

    settings = transformers.WhisperConfig(
        d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=48, max_source_positions=50, decoder_layers=1,
        decoder_attention_heads=4, decoder_ffn_dim=48)
    module = transformers.WhisperForAudioClassification(settings)
    return Net(module, lambda rows: {"input_features": torch.randn(rows, 80, 100)})


def hubert():
    import transformers

    settings = transformers.HubertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, conv_dim=[16] * 3, conv_stride=[5, 2, 2],
        conv_kernel=[10, 3, 3], num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
        vocab_size=20)
    return Net(transformers.HubertForCTC(settings), lambda rows: {"input_values": torch.randn(rows, 1600)})


def audio_spectrogram():
    import transformers

    settings = transformers.ASTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, num_mel_bins=32, max_length=64)
    return Net(transformers.ASTForAudioClassification(settings), lambda rows: {"input_values": torch.randn(rows, 64, 32)})


def patch_tst():
    import transformers

    settings = transformers.PatchTSTConfig(
        num_input_channels=2, context_length=32, patch_length=8, patch_stride=8, d_model=16, num_hidden_layers=2,
        num_attention_heads=2, ffn_dim=32, prediction_length=8)
    module = transformers.PatchTSTForPrediction(settings)
    return Net(module, lambda rows: {"past_values": torch.randn(rows, 32, 2)})


def conformer():
    from torchaudio.models import Conformer

    module = Conformer(input_dim=16, num_heads=4, ffn_dim=32, num_layers=2, depthwise_conv_kernel_size=5)
    return Net(module, lambda rows: (torch.randn(rows, 20, 16), torch.full((rows,), 20) - torch.arange(rows)))


def conv_tasnet():
    from torchaudio.models import ConvTasNet

    module = ConvTasNet(enc_num_feats=32, msk_num_feats=16, msk_num_hidden_feats=32, msk_num_layers=3, msk_num_stacks=2)
    return Net(module, floats(1, 400))


def wav2letter():
    from torchaudio.models import Wav2Letter

    return Net(Wav2Letter(num_classes=20, input_type="mfcc", num_features=13), floats(13, 200))


def deep_speech():
    from torchaudio.models import DeepSpeech

    return Net(DeepSpeech(n_feature=8, n_hidden=32, n_class=20), floats(1, 20, 8))


def wav2vec2():
    from torchaudio.models import wav2vec2_model

    module = wav2vec2_model(
        "group_norm", [(16, 10, 5), (16, 3, 2), (16, 3, 2)], False, 32, 0.0, 16, 4, 2, 4, 0.0, 48, 0.0, 0.0, False, 0.0, 20)
    return Net(module, floats(1600))


class Mel(nn.Module):
    """A classifier of sounds, with the spectrogram in the net."""

    def __init__(self):
        super().__init__()
        from torchaudio.transforms import AmplitudeToDB, MelSpectrogram

        self.mel, self.level = MelSpectrogram(16000, 256, n_mels=32), AmplitudeToDB("power")
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))

    def forward(self, wave):
        return self.body(self.level(self.mel(wave)).unsqueeze(1))


def fields(kind, *options, **named):
    """A net of torchfm over fields of ids."""
    import importlib

    import numpy

    for name in ("int", "long"):
        numpy.__dict__.get(name) or setattr(numpy, name, numpy.int64)
    where, name = kind.split(".")
    sizes = [10, 20, 30]
    module = getattr(importlib.import_module(f"torchfm.model.{where}"), name)(sizes, *options, **named)
    return Net(module, lambda rows: (torch.stack([torch.randint(0, size, (rows,)) for size in sizes], 1),))


def tabnet():
    from pytorch_tabnet.tab_network import TabNet

    return Net(TabNet(8, 3, n_d=8, n_a=8, group_attention_matrix=torch.eye(8)), floats(8))


def tabm():
    import tabm

    return Net(tabm.TabM.make(n_num_features=6, d_out=3, k=4, n_blocks=2, d_block=32), floats(6))


def unet():
    from diffusers import UNet2DConditionModel

    module = UNet2DConditionModel(
        sample_size=8, block_out_channels=(16, 32), layers_per_block=1, cross_attention_dim=16, norm_num_groups=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8)

    def arguments(rows):
        steps = torch.randint(0, 1000, (rows,))
        return {"sample": torch.randn(rows, 4, 8, 8), "timestep": steps, "encoder_hidden_states": torch.randn(rows, 5, 16)}

    return Net(module, arguments)


def vae():
    from diffusers import AutoencoderKL

    module = AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, block_out_channels=(16, 32),
        norm_num_groups=8, sample_size=16)
    return Net(module, floats(3, 16, 16))


def segmentation(name):
    import segmentation_models_pytorch as models

    return image(getattr(models, name)("mobilenet_v2", encoder_weights=None, classes=3))


def segment(name):
    import torchvision.models.segmentation as models

    return image(getattr(models, name)(weights=None, weights_backbone=None, num_classes=5))


def small_swin(kind="SwinTransformer"):
    import torchvision.models.swin_transformer as swin_transformer

    block = {} if kind == "swin" else {"block": swin_transformer.SwinTransformerBlockV2, "downsample_layer": swin_transformer.PatchMergingV2}
    module = swin_transformer.SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=10, **block)
    return image(module)


def small_vit():
    from torchvision.models import VisionTransformer

    return image(VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10), 32)


def raft():
    from torchvision.models.optical_flow import raft_small

    module = raft_small(weights=None)
    return Net(module, lambda rows: (torch.randn(rows, 3, 128, 128), torch.randn(rows, 3, 128, 128)))


def detector(name, side=128, **options):
    """A detector of torchvision over a batch: its list of images is made of the rows."""
    import torchvision.models.detection as models

    module = getattr(models, name)(weights=None, weights_backbone=None, num_classes=5, **options)
    return image(One(module), side)


class One(nn.Module):
    """Detects in one image, whose results have as many rows as there are objects."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, images):
        found = self.module([images[0]])[0]
        return found["boxes"], found["scores"], found["labels"]


def yolo(name):
    from ultralytics.nn.tasks import DetectionModel

    module = DetectionModel(name, ch=3, nc=5, verbose=False)
    module.model[-1].export, module.model[-1].format = True, "torchscript"
    return image(module)


def lstm_tagger():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.lstm = nn.Embedding(VOCABULARY, 16), nn.LSTM(16, 16, 2, batch_first=True, bidirectional=True)
            self.head = nn.Linear(32, 5)

        def forward(self, ids):
            hidden, (last, _) = self.lstm(self.words(ids))
            return self.head(hidden), last.transpose(0, 1)

    return Net(Tagger(), lambda rows: (torch.randint(0, VOCABULARY, (rows, 6)),))


CAUSAL = {"num_key_value_heads": 2}

NETS = {
    "resnet18": lambda: torchvision("resnet18"),
    "mobilenet_v2": lambda: torchvision("mobilenet_v2"),
    "mobilenet_v3": lambda: torchvision("mobilenet_v3_small"),
    "shufflenet": lambda: torchvision("shufflenet_v2_x0_5"),
    "squeezenet": lambda: torchvision("squeezenet1_1"),
    "mnasnet": lambda: torchvision("mnasnet0_5"),
    "efficientnet": lambda: torchvision("efficientnet_b0"),
    "densenet": lambda: torchvision("densenet121"),
    "googlenet": lambda: torchvision("googlenet", init_weights=False, aux_logits=False),
    "regnet": lambda: torchvision("regnet_y_400mf"),
    "vit": small_vit,
    "swin": lambda: small_swin("swin"),
    "swin_v2": lambda: small_swin("swin_v2"),
    "lraspp": lambda: segment("lraspp_mobilenet_v3_large"),
    "deeplab": lambda: segment("deeplabv3_mobilenet_v3_large"),
    "raft": raft,
    "ssdlite": lambda: detector("ssdlite320_mobilenet_v3_large"),
    "faster_rcnn": lambda: detector("fasterrcnn_mobilenet_v3_large_320_fpn"),
    "convnext": lambda: timm("convnext_atto"),
    "ghostnet": lambda: timm("ghostnet_050"),
    "mobilevit": lambda: timm("mobilevit_xxs"),
    "mixer": lambda: timm("mixer_s32_224", 64, img_size=64),
    "tiny_vit": lambda: timm("test_vit", 64, img_size=64),
    "repvgg": lambda: timm("repghostnet_050"),
    "efficientformer": lambda: timm("efficientvit_b0"),
    "poolformer": lambda: timm("poolformerv2_s12"),
    "edgenext": lambda: timm("edgenext_xx_small"),
    "levit": lambda: timm("levit_128s", 224),
    "bert": lambda: transformer("BertForSequenceClassification", "BertConfig"),
    "roberta": lambda: transformer("RobertaForTokenClassification", "RobertaConfig", pad_token_id=1),
    "albert": lambda: transformer("AlbertModel", "AlbertConfig", embedding_size=16),
    "electra": lambda: transformer("ElectraForQuestionAnswering", "ElectraConfig", embedding_size=16),
    "mpnet": lambda: transformer("MPNetModel", "MPNetConfig"),
    "deberta": lambda: transformer("DebertaV2Model", "DebertaV2Config", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "modernbert": lambda: transformer("ModernBertModel", "ModernBertConfig", pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2),
    "distilbert": distilbert,
    "t5": t5_encoder,
    "bart": bart,
    "gpt2": gpt2,
    "llama": lambda: transformer("LlamaForCausalLM", "LlamaConfig", **CAUSAL),
    "qwen3": lambda: transformer("Qwen3ForCausalLM", "Qwen3Config", **CAUSAL, head_dim=8),
    "gemma2": lambda: transformer("Gemma2ForCausalLM", "Gemma2Config", **CAUSAL, head_dim=8),
    "mixtral": lambda: transformer("MixtralForCausalLM", "MixtralConfig", **CAUSAL, num_local_experts=4),
    "clip_text": clip_text,
    "dinov2": lambda: vision_transformer("Dinov2Model", "Dinov2Config"),
    "deit": lambda: vision_transformer("DeiTForImageClassification", "DeiTConfig"),
    "siglip": lambda: vision_transformer("SiglipVisionModel", "SiglipVisionConfig"),
    "swin_hf": swin,
    "segformer": segformer,
    "yolos": yolos,
    "detr": detr,
    "whisper": whisper_encoder,
    "hubert": hubert,
    "ast": audio_spectrogram,
    "patch_tst": patch_tst,
    "conformer": conformer,
    "conv_tasnet": conv_tasnet,
    "wav2letter": wav2letter,
    "deep_speech": deep_speech,
    "wav2vec2": wav2vec2,
    "mel": lambda: Net(Mel(), floats(4000)),
    "lstm_tagger": lstm_tagger,
    "deep_fm": lambda: fields("dfm.DeepFactorizationMachineModel", 8, (16,), 0.1),
    "dcn": lambda: fields("dcn.DeepCrossNetworkModel", 8, 2, (16,), 0.1),
    "xdeepfm": lambda: fields("xdfm.ExtremeDeepFactorizationMachineModel", 8, (16,), 0.1, (8, 8)),
    "ffm": lambda: fields("ffm.FieldAwareFactorizationMachineModel", 8),
    "auto_int": lambda: fields("afi.AutomaticFeatureInteractionModel", 8, 8, 2, 2, (16,), (0.1, 0.1, 0.1)),
    "wide_deep": lambda: fields("wd.WideAndDeepModel", 8, (16,), 0.1),
    "tabnet": tabnet,
    "tabm": tabm,
    "unet": unet,
    "vae": vae,
    "smp_unet": lambda: segmentation("Unet"),
    "smp_fpn": lambda: segmentation("FPN"),
    "yolo11": lambda: yolo("yolo11n.yaml"),
    "yolov8": lambda: yolo("yolov8n.yaml"),
}

# The nets for releases of torch besides the current one.
FEW = [
    "mobilenet_v3", "shufflenet", "swin", "deeplab", "convnext", "bert", "distilbert", "t5", "gpt2", "llama", "segformer",
    "whisper", "wav2vec2", "lstm_tagger", "deep_fm", "tabm", "vae", "mel",
]
