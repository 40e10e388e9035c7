"""Questions to train a draft layer of glm-tiny on: of the kinds that it answers, in other words than its evaluation.

Answers are not here: the model gives them itself. Names and codes come from Debian's iso-codes.
"""

import json
from pathlib import Path

ISO = Path("/usr/share/iso-codes/json")

# A phrasing names the field of the fact that it shows.
FACTS = {
    "iso_3166-1": (
        "What is the alpha-2 code of {name}?", "Give the two-letter code of {name}.",
        "Tell me the alpha-2 code for {name}.", "Two-letter code of {name}?", "{name}: two-letter code?",
        "What is the alpha-3 code of {name}?", "Give the three-letter code of {name}.",
        "Tell me the alpha-3 code for {name}.", "Three-letter code of {name}?",
        "What is the numeric code of {name}?", "Give the ISO number of {name}.", "Numeric code of {name}?",
        "Which country is {alpha_2}?", "What country has the code {alpha_2}?", "Country with alpha-2 code {alpha_2}?",
        "Which country is {alpha_3}?", "What country has the code {alpha_3}?", "Country with alpha-3 code {alpha_3}?",
        "Which country is number {numeric}?", "What country has the numeric code {numeric}?",
        "What is the official name of {name}?", "Give the official name of {name}.", "Official name of {name}?",
        "Which country is officially called {official_name}?", "What is {official_name} usually called?",
        "Short name of {official_name}?"),
    "iso_4217": (
        "What is the code of the currency {name}?", "Give the currency code of {name}.", "Currency code of {name}?",
        "What currency has the code {alpha_3}?", "Which currency is {alpha_3}?", "Name the currency {alpha_3}."),
    "iso_639-2": (
        "What is the code of the language {name}?", "Give the language code of {name}.", "Language code of {name}?",
        "What language has the code {alpha_2}?", "Which language is {alpha_2}?", "Name the language {alpha_2}."),
}

SUMS = (
    "What is the sum of {a} and {b}?", "Add {a} and {b}.", "Compute {a} plus {b}.", "{a} + {b}", "{a} plus {b}?",
    "What is {a} + {b}?", "Subtract {b} from {a}.", "What is the difference of {a} and {b}?", "Compute {a} minus {b}.",
    "{a} - {b}", "{a} minus {b}?", "What is {a} - {b}?", "What is larger, {a} or {b}?", "Which is bigger, {a} or {b}?",
    "Larger: {a} or {b}?", "What is smaller, {a} or {b}?", "Which is the smaller of {a} and {b}?",
    "Smaller: {a} or {b}?")

SPELLING = (
    "Spell {w}.", "Spell the word {w}.", "How is {w} spelled?", "Spell {w} letter by letter.", "Reverse {w}.",
    "Reverse the word {w}.", "What is {w} backwards?", "Spell {w} backwards.", "How many letters does {w} have?",
    "Number of letters in {w}?", "What is the number of letters in {w}?")

WORDS = """
able acid aged also area army away baby back ball band bank base bath bear beat bed bell best bird blow blue boat body
bone book born both bread bridge bright bring brother brown build bus busy cake call calm camp card care chair cheap
child church circle city class clean clear climb clock close cloud coal coat cold cook copy corn cost cream cross crowd
dance dark date day dead deep desk dinner dirty door down draw dream dress drink drive drop dry duck dust early earth
east easy edge empty end enemy engine even every eye face fair fall family farm fast father field fight film find fire
fish flat floor flow flower food foot forest four free fresh friend front fruit full game garden gate gift girl glass
goat gold good grass green ground group grow hair half hand happy hard hat head hear heart heat heavy high hill home
honey hope horse hot hour house hunt ice iron island job join joke jump keep key kind king kiss kitchen knee knife lady
lake land large late laugh lead leaf learn left leg letter life light line lion list long loud love low lunch machine
man map market meal meat milk mind minute money month moon morning mother mountain mouse mouth music name narrow near
neck night nine noise north nose note ocean old open orange page paint paper park part peace pen people picture piece
place plane plant play poor pot prize queen quiet rain read red rest rice rich ring river road rock roof room root rose
round salt sand school sea seat seed seven shade ship shoe shop short silver sing sister six skin sky sleep slow small
smile smoke snow soap soft son song soup south space spoon spring square star station stone storm story street strong
sugar summer sun sweet swim table tail tall tea ten tent tiger time tooth town train tree uncle valley village voice
wall warm wash water wave week well west wet wheel white wide wild wind window winter wood word work world year young
""".split()


def questions(generator, rounds):
    """Each fact in some phrasing `rounds` times, and as many sums and words in proportion."""
    asked = []
    for file, phrasings in FACTS.items():
        facts = json.loads((ISO / f"{file}.json").read_text(encoding="utf-8"))[file[4:]]
        for fact in facts:
            if file == "iso_639-2" and "alpha_2" not in fact:
                continue
            shown = {**fact, "name": fact.get("common_name", fact["name"]).split(";")[0]}
            fitting = [p for p in phrasings if "{official_name}" not in p or "official_name" in shown]
            for _ in range(rounds * len(fitting) // 5):
                asked.append(generator.choice(fitting).format(**shown))
    for _ in range(len(asked) // 4):
        a, b = generator.randrange(100), generator.randrange(100)
        asked.append(generator.choice(SUMS).format(a=max(a, b), b=min(a, b)))
    for _ in range(len(asked) // 6):
        asked.append(generator.choice(SPELLING).format(w=generator.choice(WORDS)))
    generator.shuffle(asked)
    return asked
