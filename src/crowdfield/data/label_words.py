"""Words that labels use, in several languages: what "nothing is wrong" is called, what "cannot tell", how grades rank.

The lists of a rule of thumb (`crowdfield.data.positive`), spelt as people spell them. To teach a word, add it here.
"""

from __future__ import annotations

import re
import unicodedata

_SEPARATORS = re.compile(r"[\W_]+")
# Turkish ı has no decomposition: without this "hayır" and "hayir" would be two words.
_LETTERS = str.maketrans({"ı": "i", "ł": "l", "ø": "o", "ß": "ss", "'": " ", "’": " "})


def normal(label: object) -> str:
    """A label without case, accents and punctuation: "Sin-Daño" is "sin dano"."""
    text = unicodedata.normalize("NFKD", str(label).casefold().translate(_LETTERS))
    text = "".join(letter for letter in text if not unicodedata.combining(letter))
    return _SEPARATORS.sub(" ", text).strip()


def word_set(text: str) -> frozenset[str]:
    """The words of a comma-separated list, normalised as labels are."""
    return frozenset(normal(word) for word in text.split(","))


NOTHING_WRONG = word_set(
    # English
    "no, none, false, n, f, safe, ok, okay, fine, dry, dry land, land, ground, background, intact, undamaged,"
    "unaffected, unharmed, uninjured, clear, all clear, normal, negative, absent, nothing, nothing here, nothinghere,"
    "nil, healthy, good, open, passable,"
    "standing, calm, quiet, secure, sound, functional, functioning, working, operational, stable, usable, habitable,"
    "accessible, present and well, alive, well, survived, damage free, inspected, green,"
    # French
    "non, aucun, aucune, rien, sec, sèche, sain, saine, indemne, normale, rien à signaler, ras, faux, sûr, sûre, sauf,"
    "en sécurité, praticable, ouvert, ouverte, fonctionnel, accessible, vert,"
    # Spanish
    "ninguno, ninguna, nada, seco, seca, intacto, intacta, ileso, ilesa, seguro, segura, a salvo, bien, falso,"
    "transitable,"
    "abierto, abierta, verde,"
    # Portuguese
    "não, nenhum, nenhuma, ileso, segura, a salvo, aberto, aberta, transitável,"
    # German
    "nein, kein, keine, keiner, nichts, trocken, intakt, unbeschädigt, unversehrt, sicher, falsch, passierbar,"
    "offen, grün,"
    # Italian
    "nessuno, nessuna, niente, asciutto, asciutta, secco, intatto, intatta, illeso, sicuro, sicura, aperto,"
    # Turkish
    "hayır, yok, hasarsız, kuru, sağlam, güvenli, açık, yeşil,"
    # Arabic
    "لا, كلا, سليم, سليمة, آمن, آمنة, جاف, جافة, لا يوجد, لا شيء, مفتوح,"
    # Indonesian, Swahili, Filipino, Haitian Creole
    "tidak, aman, kering, utuh, tidak ada, hapana, salama, kavu, hakuna, wala, hindi, ligtas, tuyo, pa gen, sèk, bon,"
    # Polish, Dutch, Russian, Ukrainian
    "nie, brak, nee, niets, droog, нет, ні, немає, цел, цела, целый, целая, сухо, сухой, безопасно, в порядке,"
    # Hindi, Chinese, Japanese
    "नहीं, सुरक्षित, सूखा, 无, 無, 没有, 否, 安全, 完好, 干燥, なし"
)
CANNOT_TELL = word_set(
    "maybe, perhaps, possibly, not analysed, not analyzed, not assessed, not answered, not visible,"
    "unsure, not sure, unknown, not known, unclear, undecided, uncertain, cannot tell,"
    "can t tell, cant tell, can not tell, don t know, dont know, do not know, dk, na, n a, nan, not applicable,"
    "other, others,"
    "nr, not reported, prefer not to say,"
    "no data, no answer, no response, no information, no info, no idea, not stated, missing, bad imagery, bad image,"
    "no image, no imagery, unclassified, un classified, cloud, clouds, cloudy, skip, skipped, blank,"
    "peut être, inconnu, inconnue, incertain, incertaine, ne sait pas, je ne sais pas, sans réponse, autre, autres,"
    "pas de données, pas de réponse, non renseigné, non renseignée, pa konnen, mwen pa konnen, sin dato, sin respuesta,"
    "no contesta, ns nc, quizá, quizás, tal vez, desconocido, desconocida, no sé, no sabe, no se sabe, sin datos, otro,"
    "otra,"
    "otros, talvez, desconhecido, desconhecida, não sei, não sabe, sem dados, outro, outra, outros, vielleicht,"
    "unbekannt,"
    "unklar, weiß nicht, andere, anderes, keine angabe, forse, sconosciuto, non so, altro, belki, bilinmiyor, diğer,"
    "ربما, غير معروف, غير واضح, لا أعرف, لا أعلم, أخرى, mungkin, tidak tahu, tidak diketahui, lainnya, labda, sijui,"
    "baka, не знаю, неизвестно, возможно, може, невідомо, शायद, 不明, 不确定, 其他, 也许"
)
# Numbers with which questionnaires say that there is no answer, if all other answers are small numbers.
NO_ANSWER_CODES = frozenset(
    sign * number for sign in (1, -1) for number in (77, 88, 97, 98, 99, 777, 888, 997, 998, 999, 8888, 9998, 9999)
) | {-8, -9}
# Words for "cannot tell" that may also name a state: something else, missing persons, clouds over the ground.
MAY_BE_STATES = word_set(
    "other, others, autre, autres, otro, otra, otros, outro, outra, outros, andere, anderes, altro, diğer, أخرى,"
    "lainnya, 其他, missing, cloud, clouds, cloudy"
)
# A label that begins with one of these denies the rest of itself: "not flooded", "sin daño", "pas de dégâts".
DENIALS = tuple(
    sorted(
        word_set(
            "no, not, non, never, without, free of, sans, pas, pas de, pas d, aucun, aucune, sin, ningun, ningún,"
            "ninguna, sem,"
            "não, nenhum, nenhuma, ohne, kein, keine, nicht, niet, geen, nie, senza, nessun, nessuna, غير, لا,"
            "لا يوجد, بدون, ليس, ليست,"
            "tidak, tidak ada, tanpa, bukan, hakuna, si, hindi, walang, pa, pa gen, не, без, нет, немає, 没有, 未, 无"
        ),
        key=len,
        reverse=True,  # the longest first: "pas de" before "pas"
    )
)
# Turkish denies at the end: "hasar yok", "hasarlı değil".
DENIALS_AFTER = tuple(sorted(word_set("yok, değil, free, なし")))
# Prefixes that negate a word, if that word is another label: damaged and undamaged.
DENYING_PREFIXES = ("un", "in", "im", "non", "dis", "ir")
# What people need: the lack of it is the problem ("no water", "sin luz", "pas d'accès").
NEEDS = word_set(
    "water, drinking water, power, electricity, access, food, shelter, signal, network, phone, fuel, help, aid,"
    "road access,"
    "medicine, gas, supply, supplies, service, contact, housing, sanitation, eau, eau potable, courant,"
    "électricité, accès,"
    "nourriture, abri, réseau, secours, agua, agua potable, luz, electricidad, acceso, comida, refugio, señal, ayuda,"
    "energia, água, acesso, abrigo, comunicação, wasser, strom, zugang, su, elektrik, yol, ماء, مياه, كهرباء, طعام,"
    "air, listrik, akses, makanan, вода, воды, свет, света, доступ"
)

# How bad a grade is, 0 to 1. Only the order counts; a word that is in no list counts as `UNGRADED`.
UNGRADED = 0.45
VERY = word_set("very, muy, très, sehr, muito, molto, çok, sangat, جدا, очень")
_GRADES = {
    0.1: "negligible, minimal, trace, négligeable, mínimo, minimo",
    0.2: "low, slight, slightly, light, lightly, small, little, mild, faible, faibles, léger, légère, légers, bajo,"
    "baja, leve, leves,"
    "baixo, baixa,"
    "ligero, ligera, niedrig, gering, leicht, basso, bassa, lieve, düşük, az, hafif, منخفض, خفيف, rendah, ringan,"
    "низкий, легкий",
    0.25: "minor, mineur, mineurs, mineure, menor, possible, possibly, affected",
    0.35: "partial, partially, partly, partiel, partielle, parcial, parcialmente, teilweise, parziale, kısmi,"
    "yellow, jaune,"
    "amarillo, amarelo, gelb, sarı",
    0.5: "medium, moderate, moderately, mid, middle, average, moyen, moyenne, modéré, modérée, medio, media, moderado,"
    "moderada, médio, média,"
    "mittel, mäßig, moderato, orta, متوسط, sedang, средний",
    0.6: "substantial, considerable, significant, orange, naranja, laranja, turuncu",
    0.75: "major, heavy, heavily, high, highly, serious, strong, majeur, majeure, majeurs, élevé, élevée, fort, forte,"
    "mayor, alto, alta,"
    "fuerte, maior, hoch, schwer, stark, yüksek, ağır, مرتفع, عالي, عالية, tinggi, berat, высокий, тяжелый",
    0.8: "severe, severely, grave, graves, sévère, severo, severa, شديد, شديدة, parah",
    0.9: "critical, critique, crítico, crítica, kritisch, kritik, critico, red, rouge, rojo, vermelho, rot, kırmızı",
    0.95: "extreme, extrême, extremo, extrem, estremo, complete, completely, total, totally, totale, catastrophic",
    1.0: "destroyed, destruction, collapsed, collapse,"
    "demolished, détruit, détruite, effondré, effondrée, destruido, destruida,"
    "derrumbado,"
    "colapsado, destruído, destruída, desabado, zerstört, eingestürzt, distrutto, crollato, yıkık, yıkıldı,"
    "yıkılmış, مدمر,"
    "مدمرة, منهار, hancur, roboh, разрушен, разрушено, зруйновано, dead",
}
# Words beside a grade that do not change it: "slight damage", "risk: high".
ABOUT_GRADES = word_set(
    "damage, damages, damaged, to, and, or, of, the, visible, risk, impact, severity, level, grade, priority, need,"
    "structural, building,"
    "dégât, dégâts, dommage, dommages, endommagé, endommagée, de, et, risque, niveau, daño, daños, dañado, dañada, y,"
    "a, riesgo, nivel, dano, danos, danificado, danificada, e, risco, schaden, schäden, beschädigt, bis, und, risiko,"
    "danno, danni, danneggiato, danneggiata, rischio, hasar, hasarlı, ve, rusak, kerusakan, поврежден,"
    "повреждения, متضرر, ضرر"
)
GRADES: dict[str, float] = {normal(word): rank for rank, words in _GRADES.items() for word in words.split(",")}

# Words before a number that make it a grade; a "class 3" or a "type 3" may be anything.
_STEPS = word_set(
    "d, dg, ds, g, gr, grade, grado, grad, grau, derece, level, lvl, l, niveau, nivel, livello, stufe, degree, ems,"
    "severity, intensity, mmi, cdi, степень, уровень, درجة, 级, 級"
)
_NUMBERED = re.compile(r"([^\W\d]*)\s*(\d{1,2}|[ivx]{1,4})(?:\s.*)?")
_ROMAN = dict(zip("i ii iii iv v vi vii viii ix x xi xii".split(), range(1, 13), strict=True))  # noqa: SIM905


def step(label: object) -> tuple[str, float] | None:
    """The word and the number of a label such as "Grade 3", "D4: very heavy", "level II"; None for any other."""
    found = None if isinstance(label, int | float) else _NUMBERED.fullmatch(normal(label))
    if found is None or found[1] not in _STEPS:
        return None
    number = int(found[2]) if found[2].isdecimal() else _ROMAN.get(found[2])
    return None if number is None else (found[1], float(number))


# Beginnings of words that say what a state is about: the colours follow (`crowdfield.plot.palette`).
WATER = tuple(
    sorted(
        word_set(
            "flood, inond, inund, wet, water, submerg, underwater, alag, allag, sommers, überschwemm, überflut,"
            "hochwasser,"
            "banjir, tergenang, mafuriko, baha, lubog, tsunami, surge, sel, su altında, crue, mouillé, mojado,"
            "encharc, غرق,"
            "مغمور, غارق, فيضان, سيل, затоп, наводн, подтоп, बाढ़, 洪水, 淹, 浸水, anegad, crecida, enchente, inondasyon"
        )
    )
)
HARM = tuple(
    sorted(
        word_set(
            "damag, destroy, destruct, collaps, ruin, rubble, debris, fire, burn, smoke, emergenc, danger, hazard,"
            "unsafe, risk,"
            "injur, dead, death, casualt, victim, trapped, attack, conflict, violen, shelling, explos, crack,"
            "block, impass,"
            "severe, critical, landslide, earthquake, sever, endommag, dégât, dommag, effondr, détruit, incend,"
            "feu, urgen, bless,"
            "mort, bloqu, glissement, dañ, dano, danif, daño, derrumb, destru, colaps, fuego, herid, muert,"
            "peligro, deslizam,"
            "avari, desab, fogo, ferid, perigo, beschädig, schaden, schäden, zerstör, einsturz, eingestürz, brand,"
            "feuer, verletz,"
            "gefahr, dannegg, danno, crollat, distrut, incendio, ferit, pericol, hasar, yıkı, yangın, acil, yaral,"
            "rusak, hancur,"
            "roboh, kebakaran, terbakar, longsor, متضرر, ضرر, أضرار, مدمر, منهار, حريق, خطر, طارئ, поврежд, разруш,"
            "пожар,"
            "пошкодж, зруйнов, क्षति, आग, 损坏, 倒塌, 火灾, 被害"
        )
    )
)
