"""A small handbook, a question that its first page answers, and texts of all kinds: what the adapters are tested on."""

QUESTION = "When are holidays to be requested?"
PAGES = [
    {"id": "leave.md", "text": "Holidays are requested two weeks ahead.", "team": "hr"},
    {"id": "overtime.md", "text": "Overtime is taken as free time within three months.", "team": "hr"},
    {"id": "vpn.md", "text": "The VPN client is installed from the portal.", "team": "it"},
    {"id": "pay.md", "text": "Expenses are paid at the end of the month.", "team": "it"},
]
CANDIDATES = [PAGES[index]["text"] for index in (2, 0, 3)]  # the second answers the question
MIXED = ["How do I get time off?", "", "line one\nline two", "Straße 日本語 👩‍👩‍👧", "word " * 400]
