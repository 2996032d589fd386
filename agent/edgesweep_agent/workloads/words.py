"""Prompts of common English words, which most vocabularies hold as one token each.

Prompts differ from the first word on, per request, level, session and run, so that no prefix
cache can answer for the engine (vllm-project/vllm#52884: up to 86 % too fast), and are the same
for every contender of a run.
"""

from __future__ import annotations

import random

_TEXT = """
with from this have your their which more other about were also some into these when time
than over know people like year such been help what would need through work most many used
only first child system learn under could health should well world even form water sign just
make years then those each because while during found count long after give read using lead
fact test life very being find right person back students both follow write does grow much
main group level study great food start good might school within often around made said show
same power research design provide again small allow care less example down take support
human state called point number build play body plan common want three cell social change
method known real public still better hand another material report place present project
list light become energy open mean keep others best include various name create several
perform home stand move among mark look things large think against area family object current
program early together focus access last turn risk print area period land blood case since
local head post along value order come text across cost times areas cause able toward problem
view major course model else hard line tool special consider future natural plant complex
language role until second country young works always suggest exist levels step today given
strong little results range ways business book next large four similar short working past
space amount free concept later author says words paper kind mind having skills field begin
parent expect questions changes story upon concern require types enough likely record usually
days history makes away further ever going left path account higher growth century collect
full increase connect science never physical side brain however deep house done team file
required activity product engine online live fall market action idea quick reduce target
break soft surface color ensure rights mass parts lives port climate entire share rate came
approach response friends stress clear image whole events context taken continue music money
avoid related instead adult states tell allows review cannot site private economic white
check position tools except clean computer love remain weight measure offer content true
accept matter black bring took feed regular green terms express previous region select months
faces total unit element industry creating hours almost half service soil recent farm contact
sources simply close sleep easy extra enjoy heat ideas travel built aware issue longer greater
stop outside models wild points slow movement fire behind media codes user remember standard
custom takes stay normal daily numbers inside policy basic answer leaders safe sustain input
late page visit average compared shown camp decision beyond
"""
_VOCABULARY = tuple(dict.fromkeys(_TEXT.split()))


def first_word(seed: str, index: int) -> str:
    """The word that a prompt begins with; neighbours have different ones.

    Args:
        seed: What the prompts of a level have in common: run, session, concurrency.
        index: Position of the prompt.
    """
    offset = random.Random(seed).randrange(len(_VOCABULARY))  # noqa: S311 - text, not keys
    return _VOCABULARY[(offset + index) % len(_VOCABULARY)]


def prompt(seed: str, index: int, words: int) -> str:
    """The ``index``-th prompt of a level: ``words`` words, its first one its own.

    Args:
        seed: What the prompts of a level have in common: run, session, concurrency.
        index: Position of the prompt; neighbours start with different words.
        words: Length, at least 1.
    """
    rng = random.Random(f"{seed}/{index}")  # noqa: S311 - text, not keys
    return " ".join([first_word(seed, index), *rng.choices(_VOCABULARY, k=words - 1)])
