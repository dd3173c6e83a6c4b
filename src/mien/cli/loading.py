"""From settings to a swapper, for every command that needs one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mien.settings import Settings
    from mien.swapper import Swapper


def load_swapper(settings: Settings) -> Swapper:
    """Return the swapper that ``settings`` describe; this loads its networks."""
    from mien.swapper import Swapper

    return Swapper(
        model=settings.model,
        detector=settings.detector,
        blend=settings.blend,
        color_match=settings.color_match,
        occlusion=settings.occlusion,
        provider=settings.provider,
        allow_fallback=settings.allow_fallback,
        threads=settings.threads,
        gpu_memory=settings.gpu_memory,
        models=settings.models,
        max_megapixels=settings.max_megapixels,
        cache_size=settings.cache_size,
        cache_folder=settings.cache_folder,
        ledger=settings.ledger,
        certificate=settings.certificate,
        private_key=settings.private_key,
        signing_pkcs11=settings.signing_pkcs11,
        timestamp=settings.timestamp,
        label=settings.label,
        label_text=settings.label_text,
        label_place=settings.label_place,
    )
