"""The engines by name."""
from .afl import Afl
from .libfuzzer import Contract, LibFuzzer

CREWS = {crew.engine: crew for crew in (LibFuzzer, Afl, Contract)}
