// The texts that the demonstrations begin with.

export const SIMILARITY = {
  text: "The train to Lyon leaves an hour late because of snow.",
  others: [
    "Snowfall delays the rail service to Lyon.",
    "Heavy snow keeps several flights on the ground this morning.",
    "Rail passengers may change their booking without a fee.",
    "The museum in Lyon shows drawings of the 18th century.",
    "A recipe for onion soup with bread and cheese.",
    "She has trained for the marathon since January.",
  ],
};

export const ANSWERS = {
  question: "How long can I return something that I bought online?",
  passages: [
    "Goods from our web shop may be sent back within 30 days of delivery. The refund goes to the card that paid.",
    "Orders placed before noon leave our warehouse on the same day and arrive within two working days.",
    "Shoes are made to last: a new sole is put on in our workshop for a fixed price.",
    "Gift cards are valid for three years and cannot be exchanged for cash.",
    "Our shops are open from Monday to Saturday, from nine in the morning to seven in the evening.",
  ],
};

export const MAP = {
  query: "what to do when the internet is down",
  sentences: [
    "The router has to be restarted after a power cut.",
    "My internet connection breaks off every evening.",
    "The Wi-Fi password is on the back of the box.",
    "Video calls stutter since the last update of the modem.",
    "The fibre cable in our street was cut by builders.",
    "I was charged twice for the same month.",
    "The invoice shows a tariff that I never ordered.",
    "Please refund the amount to my bank account.",
    "Your direct debit was returned by the bank.",
    "The discount is missing from this month's bill.",
    "I would like to cancel my contract at the end of the year.",
    "What is the notice period for my contract?",
    "My contract was renewed although I had cancelled it.",
    "I am moving house and want to take my contract along.",
    "The technician did not come at the agreed time.",
    "Can the appointment with the technician be moved to Friday?",
    "The technician was friendly and arrived on time.",
    "Nobody called me before the technician's visit.",
  ],
};

export const BIAS = {
  sentence: "The {occupation} said that {pronoun} would arrive soon.",
  neutral: "they",
  female: "she",
  male: "he",
  occupations: [
    "nurse",
    "engineer",
    "teacher",
    "plumber",
    "librarian",
    "surgeon",
    "hairdresser",
    "programmer",
    "receptionist",
    "carpenter",
    "accountant",
    "firefighter",
    "secretary",
    "chemist",
  ],
};
