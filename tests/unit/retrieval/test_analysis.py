"""The analysis of texts: words of all scripts, stems, accents, identifiers, questions, and the places of terms."""

import re
import tracemalloc
from typing import ClassVar

import bm25s
import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, normalizers

from twinvec.errors import ConfigurationError
from twinvec.retrieval import analysis, passages
from twinvec.retrieval.analysis import Analyzer, different_terms, written_words
from twinvec.retrieval.base import Hit

WHOLE = normalizers.Sequence(
    [
        normalizers.NFKC(),
        normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=True),
        normalizers.Replace(Regex(r"\W+"), " "),
    ]
)
"""The normalisation of version 1, over a whole text; stored collections rely on it."""
TEXTS = [
    "Hybrid search fuses the scores of vectors and words; words are found by an inverted index.",
    "The cat sat on the mat. The mat was flat, the cat was fat, the cat sat again.",
    "Words, words, words.",
]
HUMP = r"(?<=[a-z0-9])(?=[A-Z][A-Za-z0-9])|(?<=[A-Z])(?=[A-Z][a-z]{2})"
ODD = "abcXYZ019_ \t\n\x00\x1c\x7f\x85\xa0.'é\u0301\u200bßİΣς数ह\u093f각\u1161ﬁ①😀"

KANA = "がのフィーﾌﾞ한글"


def terms(text: str, language: str = "english", version: int = 1) -> list[str]:
    return Analyzer(language, version).terms([text])[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cats are running", ["cat", "run"]),
        ("type 2 diabetes and vitamin D", ["type", "2", "diabet", "vitamin"]),
        ("It's Smith's", ["smith"]),
        ("café cafe\u0301", ["café", "café"]),
        ("ﬁnal １２３", ["final", "123"]),
        ("TNF-β", ["tnf", "β"]),
        ("数据库", ["数", "据", "库"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("a\x00b\u200bc", ["abc"]),
        ("", []),
        (" \n\t!?", []),
    ],
)
def test_terms(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_stop_words_and_stems_follow_the_language() -> None:
    assert terms("die Häuser und der Garten", "german") == ["haus", "gart"]
    assert "die" in terms("die Häuser", "english")
    assert terms("talot", "finnish") == ["talo"]  # a language for which bm25s has no stop words


def test_an_unknown_language_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"klingon.*english"):
        Analyzer("klingon")


@pytest.mark.parametrize("language", ["english", "german", "french", "russian", "turkish", "finnish"])
def test_terms_are_those_of_bm25s(language: str) -> None:
    known = analysis._stop_words(language)
    assert bool(known) == (language != "finnish")  # for which bm25s has none
    plain = [*TEXTS, " ".join(sorted(known)), "Größe, café, привет мир"]
    expected = bm25s.tokenize(
        [WHOLE.normalize_str(text) for text in plain],
        lower=False,
        token_pattern=analysis._TERM.pattern,
        stopwords=language if known else None,
        stemmer=Stemmer.Stemmer(language),
        return_ids=False,
        show_progress=False,
    )
    assert Analyzer(language).terms(plain) == expected


@given(st.lists(st.text(alphabet=ODD, max_size=40)))
def test_words_of_any_text_are_those_of_the_whole_normalisation(texts: list[str]) -> None:
    words = [analysis._TERM.findall(WHOLE.normalize_str(text)) for text in texts]
    assert Analyzer("finnish").terms(texts) == list(map(Stemmer.Stemmer("finnish").stemWords, words))


@given(
    st.text(alphabet=ODD + KANA + "_.,-ABC", max_size=40),
    st.sampled_from([1, 2, 3, 4, 5]),
    st.sampled_from(["english", "french"]),
)
def test_spans_have_the_terms_of_the_text_where_they_stand(text: str, version: int, language: str) -> None:
    analyzer = Analyzer(language, version)
    spans = list(analyzer.spans(text))
    assert [term for term, _, _ in spans] == analyzer.terms([text])[0]
    for term, start, end in spans:
        assert 0 <= start < end <= len(text)
        assert term in analyzer.terms([text[start:end]])[0] or not text.isascii()


def test_a_full_memory_of_stems_gives_the_same_stems(monkeypatch) -> None:
    monkeypatch.setattr(analysis, "_REMEMBERED", 0)
    monkeypatch.setattr(analysis, "_known_terms", lambda language, version: {})
    assert terms("The cats are running") == ["cat", "run"]
    assert terms("running " + "x" * 100) == ["run", "x" * 100]


@given(st.text(alphabet="aZ019_ßİéΣ数", max_size=8))
def test_the_quick_way_through_words_without_parts_is_right(word: str) -> None:
    low, parts = analysis._identifier(word)
    assert (low, parts) == (analysis._lowercased(word.strip("_")), parts)
    cut = [piece for part in word.split("_") for piece in re.split(HUMP, part) if piece]
    assert [word[start:end] for start, end in parts] == (cut if len(cut) > 1 else [])


class Noticed(str):
    """A word that notes in ``looked_at`` that it is looked at."""

    looked_at: ClassVar[list[str]] = []

    def __hash__(self) -> int:
        self.looked_at.append(self)
        return super().__hash__()


def test_only_words_of_the_text_are_looked_up_among_those_remembered(monkeypatch) -> None:
    remembered = {Noticed(f"word{row}"): (f"word{row}",) for row in range(1000)}
    Noticed.looked_at.clear()
    monkeypatch.setattr(analysis, "_known_terms", lambda language, version: remembered)
    monkeypatch.setattr(passages, "_known_terms", lambda language, version: remembered)
    assert terms("cats running") == ["cat", "run"]
    (found,) = passages.word_passages("cats", [Hit("a", "cats running", 1.0)], Analyzer())
    assert found.matches == ((0, 4),)
    assert not Noticed.looked_at


@pytest.mark.parametrize(
    ("written", "typed"),
    [
        ("Pokémon", "pokemon"),
        ("résumés", "resumes"),
        ("naïve façade", "naive facade"),
        ("Größe, Straße", "grosse strasse"),
        ("Łódź, smørbrød, Þór", "lodz smorbrod thor"),
        ("Ελλάδα", "ελλαδα"),
        ("e\u0301te\u0301", "ete"),
        ("Nguyễn", "nguyen"),
    ],
)
def test_accents_of_latin_and_greek_letters_are_folded(written: str, typed: str) -> None:
    assert terms(written, version=2) == terms(typed, version=2)
    assert terms(written, version=1) != terms(typed, version=1)


def test_other_scripts_keep_their_marks() -> None:
    for text in ("большой йод", "हिन्दी भाषा", "กำลัง", "がぎ", "עִבְרִית", "كِتَاب", "한국어"):
        assert terms(text, version=2) == terms(text, version=1)
    assert terms("йод", version=2) != terms("иод", version=2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("フィルターの掃除", ["フィ", "ィル", "ルタ", "ター", "掃", "除"]),
        ("ﾌｨﾙﾀｰ", ["フィ", "ィル", "ルタ", "ター"]),
        ("できない", ["でき", "きな", "ない"]),
        ("エラー0x80070490", ["エラ", "ラー", "0x80070490"]),
        ("Wi-Fiルーターを", ["wi", "fi", "ルー", "ータ", "ター"]),
        ("드라이버를 물", ["드라", "라이", "이버", "버를", "물"]),
        ("が キ", []),
    ],
)
def test_kana_and_korean_syllables_are_compared_by_pairs(text: str, expected: list[str]) -> None:
    assert terms(text, version=3) == expected
    assert terms(text, version=2) != expected


@given(st.text(alphabet=ODD + "がのフィー数", max_size=20), st.text(alphabet="のがフ", max_size=3))
def test_a_kana_word_is_found_whatever_stands_around_it(text: str, word: str) -> None:
    analyzer = Analyzer("english", 3)
    asked, there = analyzer.query_terms([word])[0], analyzer.terms([f"{text} {word}がカー{text}", f"漢{word}字"])
    assert set(asked) <= set(there[0])
    assert set(asked) <= set(there[1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("แมวดำ", ["แม", "มว", "วด", "ดำ"]),  # Thai
        ("ดื่มน้ำ", ["ดื่ม", "มน้", "น้ำ"]),
        ("ກິນເຂົ້າ", ["ກິນ", "ນເ", "ເຂົ້", "ຂົ້າ"]),  # Lao
        ("ភាសាខ្មែរ", ["ភាសា", "សាខ្", "ខ្មែ", "មែរ"]),  # Khmer
        ("မြန်မာစာ", ["မြန်", "န်မာ", "မာစာ"]),  # Burmese
        ("iPhoneรุ่นใหม่", ["iphon", "phone", "รุ่น", "นใ", "ให", "หม่"]),
        ("ก", ["ก"]),
        ("ปี๒๕๖๓", ["ปี", "๒๕๖๓"]),
    ],
)
def test_scripts_of_southeast_asia_are_compared_by_pairs(text: str, expected: list[str]) -> None:
    assert terms(text, version=5) == expected
    assert [(term, text[start:end]) for term, start, end in Analyzer(version=5).spans(text) if not text.isascii()] == [
        (term, {"iphon": "iPhone", "phone": "Phone"}.get(term, term)) for term in expected
    ]
    assert len(terms(text, version=4)) <= 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("U.S.A.", ["usa"]),
        ("s.h.i.e.l.d", ["shield"]),
        ("J.R.R. Tolkien (b. 1892)", ["jrr", "tolkien", "1892"]),
        ("«Η.Π.Α.», С.Ш.А.", ["ηπα", "сша"]),
        ("at 3 p.m.", ["3", "pm"]),
        ("a.b.com www.a.b.org x.y.z1 1.2.3 A..B .N.E.T", ["com", "www", "org", "z1", "1", "2", "3"]),
        ("Doe, J. and R. Roe", ["doe", "roe"]),
    ],
)
def test_letters_with_dots_between_them_are_one_word(text: str, expected: list[str]) -> None:
    assert terms(text, version=4) == expected


def test_an_acronym_has_its_letters_and_dots_as_its_place() -> None:
    text = "by J.R.R. Tolkien"
    assert next((term, text[start:end]) for term, start, end in Analyzer("english", 4).spans(text)) == ("jrr", "J.R.R")
    assert "jrr" not in terms(text, version=3)


def test_an_acronym_in_a_question_is_no_word_that_asks() -> None:
    assert Analyzer("english", 4).query_terms(["what does s.h.i.e.l.d stand for?"]) == [["shield", "stand"]]
    assert Analyzer("english", 4).query_terms(["Who is in the U.S. senate?"]) == [["us", "senat"]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Python 3.11.", ["python", "3.11", "3", "11"]),
        ("node.js, Vue.JS", ["node.j", "node", "js", "vue.j", "vue", "js"]),
        ("v1.18.3 1.18.3", ["1.18.3", "v1", "18", "3", "1.18.3", "1", "18", "3"]),
        ("http://192.168.1.1:8080/", ["http", "192.168.1.1", "192", "168", "1", "1", "8080"]),
        ("<j.doe@www.example.com>", ["j.doe", "doe", "example.com", "www", "exampl", "com"]),
        ("www.example", ["www.exampl", "www", "exampl"]),
        ("photo_2023.jpg H.264", ["photo_2023.jpg", "photo_2023", "photo", "2023", "jpg", "h.264", "264"]),
        ("os.path.join(x)", ["os.path.join", "os", "path", "join"]),
        ("_node.js_ __init__.py", ["node.j", "node", "js", "init__.pi", "init", "py"]),
        ("сайт.рф café.fr", ["сайт.рф", "сайт", "рф", "cafe.fr", "cafe", "fr"]),
        ("使用Node.js开发，3.安装", ["使", "用", "node.j", "node", "js", "开", "发", "3", "安", "装"]),
        ("Node.jsフィル", ["node.j", "node", "js", "フィ", "ィル"]),
        ("end.The start", ["end.th", "end", "start"]),  # one more term, which nobody searches
        ("wait...what? a..b_c .5 5. _._ ...", ["wait", "what", "b_c", "5", "5"]),
        ("U.S.A., e.g. i.e. p.m.", ["usa", "eg", "ie", "pm"]),
        ("COVID-19 1:30 it's", ["covid", "19", "1", "30"]),
    ],
)
def test_letters_and_digits_with_dots_between_them_are_found_whole_and_by_their_parts(
    text: str, expected: list[str]
) -> None:
    assert terms(text, version=5) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,000 is 1000", ["1000", "1000"]),
        ("$12,345,678.50", ["12345678.50", "12345678", "50"]),
        ("1,000, 2,000.", ["1000", "2000"]),
        ("3,14 0,123 1,2,3 12,34,567 1000,200 x1,000 1,0000", None),
        ("é 1,000", ["e", "1000"]),
        ("«1,000»", ["1000"]),
    ],
)
def test_commas_between_thousands_are_left_out(text: str, expected: list[str] | None) -> None:
    assert terms(text, version=5) == (expected if expected is not None else terms(text, version=4))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("C++ and c++, C#.", ["c++", "c++", "c#"]),
        ("C++17 F#4", ["c++", "17", "f#", "4"]),
        ("Objective-C++ g++", ["object", "c++", "g++"]),
        ("使用C#开发", ["使", "用", "c#", "开", "发"]),
        ("Größe C++", ["gross", "c++"]),
        ("C#.NET", ["c#", "net"]),
        ("A+B C+ # C#Sharp page#top ab++ +++", ["sharp", "page", "top", "ab"]),
    ],
)
def test_a_letter_with_plus_signs_or_a_hash_is_a_word(text: str, expected: list[str]) -> None:
    assert terms(text, version=5) == expected
    assert [term for term, _, _ in Analyzer(version=5).spans(text)] == expected
    assert not {"c++", "c#", "f#", "g++"} & set(terms(text, version=4))


def test_a_joined_word_and_its_parts_have_their_places() -> None:
    text = "Try (v1.18.3), costs €1,000.50"
    assert [(term, text[start:end]) for term, start, end in Analyzer("english", 5).spans(text)] == [
        ("tri", "Try"),
        ("1.18.3", "v1.18.3"),
        ("v1", "v1"),
        ("18", "18"),
        ("3", "3"),
        ("cost", "costs"),
        ("1000.50", "1,000.50"),
        ("1000", "1,000.50"),
        ("50", "1,000.50"),
    ]


def test_a_match_of_a_joined_word_is_marked_whole() -> None:
    hit = Hit("a", "Since Node.js 20, a node is a node.", 1.0)
    (found,) = passages.word_passages("node.js", [hit], Analyzer("english", 5))
    assert [found.text[start:end] for start, end in found.matches] == ["Node.js", "node", "node"]


@pytest.mark.parametrize(
    "text", ["x" * 2**18 + " é", "a." * 2**17, "." * 2**18, "1," * 2**17, "_." * 2**17, "é" * 2**18 + "."]
)
def test_a_very_long_word_takes_linear_time(text: str) -> None:
    """A pattern that begins anew at every letter of the word would not end."""
    analyzer = Analyzer("english", 5)
    assert len(analyzer.query_terms([text])[0]) <= len(text)
    assert len(analyzer.masked(text)) == len(text)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What is new in Python 3.11?", ["new", "python", "3.11", "3.11", "3.11", "3", "11"]),
        ("TLS 1.2", ["tls", "1.2", "1.2", "1.2", "1", "2"]),
        ("node.js", ["node.j", "node.j", "node.j", "node", "js"]),
        ("9q22.3", ["9q22.3", "9q22.3", "9q22.3", "9q22", "3"]),  # 9q22 alone would count three times
        ("1,000 users", ["1000", "user"]),
        ("1000 users", ["1000", "1000", "1000", "user"]),
        ("U.S.A.", ["usa"]),
        ("will.i.am songs", ["will.i.am", "will.i.am", "will.i.am", "am", "song"]),
        ("who.is", ["who.i", "who.i", "who.i", "who"]),
        ("what does what.cd mean?", ["what.cd", "what.cd", "what.cd", "what", "cd", "mean"]),
    ],
)
def test_a_joined_word_of_a_query_counts_as_three_terms(query: str, expected: list[str]) -> None:
    assert Analyzer("english", 5).query_terms([query]) == [expected]


def test_a_joined_word_and_its_parts_are_codes_with_digits_or_alone() -> None:
    def share(query: str, version: int = 5) -> float:
        analyzer = Analyzer("english", version)
        return analyzer.code_share(query, *analyzer.query_terms([query]))

    assert share("H.264") == share("192.168.1.1") == share("4.2.1 try_acquire") == share("what is node.js?") == 1.0
    assert share("install TLS 1.3 now") == pytest.approx(5 / 8)
    assert share("1,000 users") == share("U.S. users") == share("users. more") == 0.0
    assert share("1,000.50 users") == pytest.approx(5 / 6)
    assert share("install node.js") == share("node.js", version=4) == share("TLS 1.3", version=4) == 0.0


def test_the_parts_of_joined_words_are_the_different_terms_of_a_text() -> None:
    texts = ["Node.js and Node.js", "node js", "Python 3.11 3.11", ""]
    assert different_terms(Analyzer("english", 5).terms(texts)) == [2, 2, 3, 0]


def test_stemmers_of_other_languages_see_the_accents() -> None:
    assert terms("résumés", "french", 2) == ["resum"]
    assert terms("Häuser", "german", 2) == terms("hauser", "german", 2) == ["haus"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("get_environment_variable", ["get_environment_vari", "get", "environ", "variabl"]),
        ("getEnvironmentVariable()", ["getenvironmentvari", "get", "environ", "variabl"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("--dry-run", ["dri", "run"]),
        ("foo.bar", ["foo", "bar"]),
        ("__init__ _private", ["init", "privat"]),
        ("parse_HTTPHeader2", ["parse_httpheader2", "pars", "http", "header2"]),
        ("MAX_VALUE", ["max_valu", "max", "valu"]),
        ("mRNAs RNAs IDs McX", ["mrnas", "rnas", "rnas", "id", "mcx"]),
        ("environment variable", ["environ", "variabl"]),
        ("größe_der_Fläche", ["grosse_der_flach", "gross", "der", "flach"]),
        ("___", []),
    ],
)
def test_identifiers_are_found_whole_and_by_their_parts(text: str, expected: list[str]) -> None:
    assert terms(text, version=2) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What is the NASUWT?", ["nasuwt"]),
        ("How do I renew a certificate?", ["renew", "certif"]),
        ("Who is the director?", ["director"]),
        ("Can you explain what tax is?", ["explain", "tax"]),
        ("WHO guidelines", ["who", "guidelin"]),
        ("can opener", ["can", "open"]),
        ("What?", ["what"]),
        ("", []),
    ],
)
def test_words_that_only_ask_are_no_terms_of_a_query(query: str, expected: list[str]) -> None:
    assert Analyzer("english", 2).query_terms([query]) == [expected]
    assert Analyzer("english", 2).query_terms([query.upper(), query.lower() + "  "]) == [expected, expected]
    assert Analyzer("english", 1).query_terms([query]) == [terms(query)]
    assert "what" in terms("What is the NASUWT?", version=2)  # a document keeps them


@pytest.mark.parametrize("name", ["JavaScript", "YouTube", "iPhone", "OpenAI", "McDonald", "Environment", "NASA"])
def test_names_are_one_term_of_a_query_in_any_case(name: str) -> None:
    analyzer = Analyzer("english", 2)
    (expected,) = analyzer.query_terms([name.lower()])
    assert len(expected) == 1
    assert analyzer.query_terms([name, name.upper()]) == [expected, expected]


@pytest.mark.parametrize("name", ["HTTPServer", "getEnvironmentVariable", "get_value", "MyOwnClass"])
def test_identifiers_of_a_query_have_their_parts(name: str) -> None:
    assert len(Analyzer("english", 2).query_terms([name])[0]) >= 3


@pytest.mark.parametrize("code", ["4711", "hnf4a", "cx3cr1", "20240501", "10000"])
def test_a_code_of_a_query_counts_as_three_terms(code: str) -> None:
    for language in ("english", "german"):
        assert Analyzer(language, 2).query_terms([f"{code} pumps"])[0].count(code) == 3
        assert Analyzer(language, 1).query_terms([f"{code} pumps"])[0].count(code) == 1
        assert Analyzer(language, 2).terms([f"{code} pumps"])[0].count(code) == 1
        assert Analyzer(language, 2).code_share(code, [code, code, "pump"]) == pytest.approx(2 / 3)
        assert Analyzer(language, 1).code_share(code, [code, "pump"]) == 0


def test_an_identifier_and_its_parts_are_codes() -> None:
    def share(query: str, version: int = 3) -> float:
        analyzer = Analyzer("english", version)
        return analyzer.code_share(query, *analyzer.query_terms([query]))

    assert share("try_acquire") == share("get_user") == share("get_user user") == 1.0
    assert share("call try_acquire twice") == pytest.approx(3 / 5)
    assert share("acquaint try_acquire") == pytest.approx(3 / 4)
    assert share("is_new news") == pytest.approx(2 / 3)
    assert share("get_url2 configure pump kitchen valve") == pytest.approx(7 / 11)  # codes count three times
    assert share("is_in_list install pump kitchen valve") == pytest.approx(2 / 6)
    assert share("a__b pump valve") == pytest.approx(1 / 3)
    assert share("try to acquire") == share("try_acquire", version=2) == 0.0


def test_the_codes_of_a_very_long_word_are_counted() -> None:
    """A pattern that begins anew at every letter of the word would not end."""
    analyzer = Analyzer("english")
    query = "x" * 2**20 + " a_b"
    assert Analyzer("english", 3).code_share(query, analyzer.terms([query])[0]) == 0.5


@pytest.mark.parametrize("word", ["2019", "1990s", "1848", "b12", "x86", "20th", "1001st", "pumps"])
def test_years_and_short_or_common_words_count_once(word: str) -> None:
    assert len(Analyzer("english", 2).query_terms([word])[0]) == 1
    assert Analyzer("english", 2).code_share(word, [word]) == Analyzer("english", 2).code_share("", []) == 0


def test_the_words_of_many_texts_are_not_held_at_once(monkeypatch) -> None:
    monkeypatch.setattr(analysis, "_TEXTS_AT_ONCE", 64)
    texts = [f"{' '.join(TEXTS)} number{row}" for row in range(2000)]
    analyzer = Analyzer("english", 2)
    first = analyzer.terms(texts[-1:])  # loads what it needs
    tracemalloc.start()
    try:
        found = analyzer.terms(texts)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found) == 2000
    assert found[-1:] == first
    assert peak - kept < 1_000_000, "their words take megabytes"


def test_words_are_counted_by_the_texts_that_have_them() -> None:
    written = written_words(["The Cats, the cats; getCats x2", "cats: Größe 数", "of"])
    assert Analyzer("english", 2).word_counts(written) == {"cats": 4, "getcats": 1, "get": 1, "größe": 1, "数": 1}


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="from 1 to 5, got 6"):
        Analyzer("english", 6)
