"""The names that people give to columns, in several languages: of latitude, longitude, label, source, time and others.

To support another name, add it here, as it is written or in the form of `canonical`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable


def without_accents(text: str) -> str:
    """The letters of a text without the marks on them."""
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def canonical(name: str) -> str:
    """The form in which names are compared: lower case, without accents, words joined by _."""
    plain = without_accents(name.strip().lower())
    return re.sub(r"(?:[^\w#+]|_)+", "_", plain).strip("_")


# In the order in which they are tried: the plainest name first.
_NAMES: dict[str, str] = {
    "lat": """lat latitude latitude_wgs84 lat_dd gps_lat gps_latitude geo_lat location_lat location_latitude point_lat
        decimallatitude decimal_latitude latitud latitudine breitengrad latitid enlem lintang garis_lintang
        szerokość_geograficzna szerokość широта خط_العرض 纬度 緯度 y_lat lat_y y point_y northing y_coord coord_y
        lat_n latitude_n lat_s latitude_s""",
    "lon": """lon long lng longitude longitude_wgs84 lon_dd long_dd gps_lon gps_lng gps_long gps_longitude geo_lon
        geo_lng location_lon location_lng location_longitude point_lon decimallongitude decimal_longitude longitud
        longitudine
        längengrad laengengrad lonjitid boylam bujur garis_bujur długość_geograficzna długość dlugosc долгота довгота
        خط_الطول 经度 經度 経度 x_lon lon_x x point_x easting x_coord coord_x
        lon_e long_e longitude_e lon_w long_w longitude_w""",
    # First what was seen; names of kinds and states, which may also be those of things and of paperwork, come last.
    "label": """label labels damage damage_level damage_grade damage_class damage_state damage_category damage_gra
        grading building_damage severity flooded flood ems98 ems_98 daño daños nivel_de_daño dégâts dégât dommage
        dommages niveau_de_dégâts schaden hasar hasar_durumu kerusakan domaj повреждения الضرر 被害 被害状況 class
        classification prediction predicted_class predicted_label answer response annotation vote choice value
        grade intensity condition observation observed presence incident_type event_type report_type category
        categories categoria categorie kategorie type tipo typ status state estado état zustand situación situação
        durum kondisi состояние статус стан الحالة حالة 状态 狀態 状况 状況 tag tags report""",
    "source": """source source_id worker worker_id workerid user user_id userid user_name username reporter reporter_id
        annotator annotator_id volunteer volunteer_id observer observer_id contributor contributor_id contact contact_id
        sender sender_id author phone phone_number device device_id deviceid submitted_by enumerator surveyor agent who
        from recorded_by recordedby observed_by reported_by created_by creator created_user user_login usuario usuária
        fuente encuestador informante utilisateur enquêteur enquêtrice quelle melder kaynak gönderen pelapor segnalatore
        источник отправитель джерело المصدر المرسل 上报人 来源 報告者
        name""",
    # First when something was seen, then when it was reported, then when a row was made.
    "time": """time datetime date_time date time_observed_at observed_at observed_on observation_date
        event_date event_time eventdate incident_date timestamp when survey_date reported_at report_date report_time
        submitted_at submission_time submitted submission_date submissiondate created_at created created_date
        creation_date creationdate date_created ts updated_at fecha fecha_hora
        fecha_de_registro datum zeitpunkt zeit date_de_collecte tarih waktu tanggal дата время التاريخ 时间
        時間 日期 日時 data""",
    "id": "id report_id reportid message_id post_id uuid guid event_id record_id classification_id",
    "text": "text message title description comment comments body content notes details",
    "accuracy": """accuracy_m accuracy_in_m accuracy_meters accuracy_metres gps_accuracy gps_accuracy_m gps_precision
        horizontal_accuracy horizontalaccuracy hacc h_accuracy location_accuracy coordinateuncertaintyinmeters
        coordinate_uncertainty_in_meters positional_accuracy uncertainty_m uncertainty_meters uncertainty_metres
        precision_m radius_m error_m gps_error accuracy_km uncertainty_km radius_km precision_km
        accuracy_ft accuracy_feet gps_accuracy_ft accuracy""",
    "count": """count nresp n_reports num_reports number_of_reports report_count reports_count seen_by n_responses
        num_responses number_of_responses""",
    "area": "whole_area",  # as `crowdfield convert` writes it
}
SYNONYMS: dict[str, tuple[str, ...]] = {
    role: tuple(dict.fromkeys(canonical(name) for name in names.split())) for role, names in _NAMES.items()
}
AMBIGUOUS_TIMES = frozenset({"data"})  # a date in some languages, anything in others: its cells must agree
# HXL tags that say what a column is, whatever its name: the tag and the attributes it needs.
TAGS: dict[str, tuple[str, ...]] = {
    "lat": ("#geo+lat",),
    "lon": ("#geo+lon",),
    "label": ("#status", "#severity", "#event+type", "#report+type", "#impact+type", "#cause+type"),
    "source": ("#contact", "#meta+source"),
    "time": ("#date",),
    "id": ("#meta+id", "#id"),
    "text": ("#description",),
}
# Words of which one in the name of a question or a column says that it is about what was seen.
_ABOUT = """damage damages damaged destroyed destruction collapsed flood flooded flooding fire status severity condition
    category type daño daños dañado inundado inundación dégât dégâts dommage dommages endommagé
    endommagée inondé inondée inondation inundada domaj
    schaden schäden beschädigt überflutet hasar hasarlı banjir rusak поврежден повреждение разрушен затоплен"""
ABOUT = frozenset(canonical(word) for word in _ABOUT.split())
# Cells that say that nothing is known, in any letter case. "None" is not among them: it may be what a source saw.
_MISSING = """na, n/a, #n/a, n.a., n/d, n.d., s/d, s.d., k.a., -, --, –, —, ?, null, <null>, (null), \\n, nan, <na>,
    (blank), (vide), (leer), (en blanco), (vuoto), #null!, #value!, #ref!, #div/0!, #name?, #num!, #n/d, #nv"""
MISSING = frozenset(word.strip() for word in _MISSING.split(","))
# Cells that say whether something holds.
YES, NO = frozenset({"true", "yes", "1"}), frozenset({"false", "no", "0"})
_NUMBER = re.compile(r"[+-]?(\d[\d.,]*|[.,]\d+)(e[+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)


def spellings(words: Iterable[str]) -> list[str]:
    """Each word in its usual forms: lower case, upper case, capitalised. Words that are numbers are left out: pandas
    would match other forms of the same number too.
    """
    forms = {form for word in words for form in (word, word.upper(), word.capitalize())}
    return sorted(form for form in forms if not _NUMBER.fullmatch(form))
