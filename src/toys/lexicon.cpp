#include "toys/lexicon.h"

#include "transformer/core/error.h"

namespace transformer::toy {
namespace {

using namespace kind;
using enum StemKind;

constexpr Pronoun pronoun_table[] = {
    {"I", "me", "나", false, 0},  {"we", "us", "우리", false, 0},  {"you", "you", "너", false, 1},
    {"he", "him", "그", true, 2}, {"she", "her", "그녀", true, 3}, {"they", "them", "그들", false, 4},
};

constexpr Noun noun_table[] = {
    {"teacher", "teachers", "선생님", person, "명"},
    {"student", "students", "학생", person, "명"},
    {"friend", "friends", "친구", person, "명"},
    {"child", "children", "아이", person, "명"},
    {"doctor", "doctors", "의사", person, "명"},
    {"farmer", "farmers", "농부", person, "명"},
    {"singer", "singers", "가수", person, "명"},
    {"soldier", "soldiers", "군인", person, "명"},
    {"girl", "girls", "소녀", person, "명"},
    {"boy", "boys", "소년", person, "명"},
    {"man", "men", "남자", person, "명"},
    {"woman", "women", "여자", person, "명"},
    {"mother", "mothers", "어머니", kin, "명"},
    {"father", "fathers", "아버지", kin, "명"},
    {"grandmother", "grandmothers", "할머니", kin, "명"},
    {"cat", "cats", "고양이", animal, "마리"},
    {"mouse", "mice", "쥐", animal, "마리"},
    {"dog", "dogs", "개", animal, "마리"},
    {"bird", "birds", "새", animal, "마리"},
    {"rabbit", "rabbits", "토끼", animal, "마리"},
    {"horse", "horses", "말", animal, "마리"},
    {"cow", "cows", "소", animal, "마리"},
    {"pig", "pigs", "돼지", animal, "마리"},
    {"bear", "bears", "곰", animal, "마리"},
    {"tiger", "tigers", "호랑이", animal, "마리"},
    {"fox", "foxes", "여우", animal, "마리"},
    {"duck", "ducks", "오리", animal, "마리"},
    {"monkey", "monkeys", "원숭이", animal, "마리"},
    {"bread", "", "빵", food},
    {"rice", "", "밥", food},
    {"meat", "", "고기", food},
    {"cake", "cakes", "케이크", food, "개"},
    {"apple", "apples", "사과", fruit, "개"},
    {"banana", "bananas", "바나나", fruit, "개"},
    {"potato", "potatoes", "감자", fruit, "개"},
    {"egg", "eggs", "달걀", fruit, "개"},
    {"water", "", "물", drink, "잔", "glass", "glasses"},
    {"milk", "", "우유", drink, "잔", "glass", "glasses"},
    {"juice", "", "주스", drink, "잔", "glass", "glasses"},
    {"coffee", "", "커피", drink, "잔", "cup", "cups"},
    {"tea", "", "차", drink, "잔", "cup", "cups"},
    {"book", "books", "책", written, "권"},
    {"novel", "novels", "소설", written, "권"},
    {"letter", "letters", "편지", written, "통"},
    {"poem", "poems", "시", written, "편"},
    {"magazine", "magazines", "잡지", printed, "권"},
    {"newspaper", "newspapers", "신문", printed, "부"},
    {"chair", "chairs", "의자", thing, "개"},
    {"desk", "desks", "책상", thing, "개"},
    {"bag", "bags", "가방", thing, "개"},
    {"hat", "hats", "모자", thing, "개"},
    {"clock", "clocks", "시계", thing, "개"},
    {"umbrella", "umbrellas", "우산", thing, "개"},
    {"pencil", "pencils", "연필", thing, "자루"},
    {"camera", "cameras", "카메라", thing, "대"},
    {"flower", "flowers", "꽃", plant, "송이"},
    {"tree", "trees", "나무", plant, "그루"},
    {"door", "doors", "문", opening, "개"},
    {"window", "windows", "창문", opening, "개"},
    {"box", "boxes", "상자", opening, "개"},
    {"ball", "balls", "공", ball, "개"},
    {"car", "cars", "자동차", vehicle, "대"},
    {"bicycle", "bicycles", "자전거", vehicle, "대"},
    {"house", "houses", "집", house, "채"},
    {"math", "", "수학", study},
    {"science", "", "과학", study},
    {"history", "", "역사", study},
    {"English", "", "영어", study},
    {"Korean", "", "한국어", study},
    {"Transformer", "", "Transformer", study, "", "", "", "트랜스포머"},
    {"Python", "", "Python", study, "", "", "", "파이썬"},
    {"song", "songs", "노래", song, "곡"},
    {"music", "", "음악", music},
    {"money", "", "돈", idea},
    {"peace", "", "평화", idea},
    {"freedom", "", "자유", idea},
    {"summer", "", "여름", idea},
    {"winter", "", "겨울", idea},
};

constexpr Kinds anything = alive | eaten | drink | read | goods | plant | study | song | music | idea;
constexpr Kinds wares = eaten | drink | read | goods | plant | animal;

constexpr Verb transitive_table[] = {
    {"like", "likes", "liked", "", {"좋아하"}, alive, anything, false},
    {"love", "loves", "loved", "사랑", {"하"}, alive, anything, false},
    {"hate", "hates", "hated", "", {"싫어하"}, alive, anything, false},
    {"want", "wants", "wanted", "", {"원하"}, people, eaten | drink | read | goods | idea, false},
    {"remember", "remembers", "remembered", "기억", {"하"}, people, alive | song | house | idea, false},
    {"miss", "misses", "missed", "", {"그리워하"}, alive, people | idea, false},
    {"respect", "respects", "respected", "존경", {"하"}, people, people, false},
    {"trust", "trusts", "trusted", "", {"믿"}, people, people, false},
    {"see", "sees", "saw", "", {"보"}, alive, alive | goods | plant},
    {"find", "finds", "found", "", {"찾"}, alive, alive | thing | ball | house},
    {"catch", "catches", "caught", "", {"잡"}, alive, animal | ball},
    {"chase", "chases", "chased", "", {"쫓"}, alive, animal},
    {"follow", "follows", "followed", "", {"따르"}, alive, people},
    {"raise", "raises", "raised", "", {"기르", reu}, people, animal},
    {"draw", "draws", "drew", "", {"그리"}, people, alive | plant | house},
    {"eat", "eats", "ate", "", {"먹"}, alive, eaten},
    {"wash", "washes", "washed", "", {"씻"}, people, fruit},
    {"drink", "drinks", "drank", "", {"마시"}, alive, drink},
    {"buy", "buys", "bought", "", {"사"}, people, wares},
    {"sell", "sells", "sold", "", {"팔"}, people, wares},
    {"make", "makes", "made", "", {"만들"}, people, thing},
    {"lose", "loses", "lost", "", {"잃어버리"}, people, thing | ball},
    {"choose", "chooses", "chose", "", {"고르", reu}, people, thing | fruit | read},
    {"read", "reads", "", "", {"읽"}, people, read},
    {"write", "writes", "wrote", "", {"쓰"}, people, written},
    {"study", "studies", "studied", "공부", {"하"}, people, study},
    {"learn", "learns", "learned", "", {"배우"}, people, study},
    {"teach", "teaches", "taught", "", {"가르치"}, people, study},
    {"listen to", "listens to", "listened to", "", {"듣", d}, people, song | music},
    {"sing", "sings", "sang", "", {"부르", reu}, people, song},
    {"call", "calls", "called", "", {"부르", reu}, people, people},
    {"meet", "meets", "met", "", {"만나"}, people, people},
    {"help", "helps", "helped", "", {"돕", b}, alive, people},
    {"wait for", "waits for", "waited for", "", {"기다리"}, alive, people},
    {"open", "opens", "opened", "", {"열"}, people, opening},
    {"close", "closes", "closed", "", {"닫"}, people, opening},
    {"build", "builds", "built", "", {"짓", s}, people, house},
    {"push", "pushes", "pushed", "", {"밀"}, people, vehicle | opening},
    {"ride", "rides", "rode", "", {"타"}, people, vehicle},
    {"throw", "throws", "threw", "", {"던지"}, people, ball},
    {"kick", "kicks", "kicked", "", {"차"}, people, ball},
    {"plant", "plants", "planted", "", {"심"}, people, plant},
};

constexpr Verb intransitive_table[] = {
    {"sleep", "sleeps", "slept", "", {"자"}, alive},     {"laugh", "laughs", "laughed", "", {"웃"}, people},
    {"cry", "cries", "cried", "", {"울"}, alive},        {"walk", "walks", "walked", "", {"걷", d}, alive},
    {"run", "runs", "ran", "", {"달리"}, alive},         {"swim", "swims", "swam", "수영", {"하"}, alive},
    {"dance", "dances", "danced", "춤", {"추"}, people}, {"work", "works", "worked", "일", {"하"}, people},
    {"rest", "rests", "rested", "", {"쉬"}, alive},      {"play", "plays", "played", "", {"놀"}, alive},
};

constexpr Verb motion_table[] = {
    {"go", "goes", "went", "", {"가"}, alive},
    {"come", "comes", "came", "", {"오"}, alive},
    {"return", "returns", "returned", "", {"돌아가"}, alive},
    {"walk", "walks", "walked", "", {"걸어가"}, alive},
    {"run", "runs", "ran", "", {"달려가"}, alive},
};

constexpr Adjective adjective_table[] = {
    {"big", {"크"}, "", animal | goods | plant | fruit},
    {"small", {"작"}, "", animal | goods | plant | fruit},
    {"pretty", {"예쁘"}, "", people | animal | plant | thing},
    {"cute", {"귀엽", b}, "", animal},
    {"fast", {"빠르", reu}, "", animal | vehicle},
    {"strong", {"강하"}, "", alive},
    {"brave", {"용감하"}, "", alive},
    {"kind", {"친절하"}, "", people},
    {"diligent", {"부지런하"}, "", people},
    {"happy", {"행복하"}, "", people},
    {"busy", {"바쁘"}, "", people},
    {"sad", {"슬프"}, "", people},
    {"hungry", {"배고프"}, "", alive},
    {"heavy", {"무겁", b}, "", thing | opening | ball | vehicle},
    {"light", {"가볍", b}, "", thing},
    {"expensive", {"비싸"}, "", goods | fruit | read},
    {"cheap", {"싸"}, "", goods | fruit | read},
    {"delicious", {"맛있"}, "", eaten},
    {"old", {}, "늙은", alive},
    {"old", {}, "낡은", goods | read},
    {"new", {}, "새", goods | read},
    {"white", {}, "흰", animal | goods | plant},
    {"black", {}, "검은", animal | goods},
    {"red", {}, "빨간", goods | plant},
};

constexpr Place place_table[] = {
    {"school", "to school", "at school", "학교"},
    {"home", "home", "at home", "집"},
    {"library", "to the library", "in the library", "도서관"},
    {"park", "to the park", "in the park", "공원"},
    {"market", "to the market", "at the market", "시장"},
    {"hospital", "to the hospital", "in the hospital", "병원"},
    {"restaurant", "to the restaurant", "in the restaurant", "식당"},
    {"station", "to the station", "at the station", "역"},
    {"theater", "to the theater", "in the theater", "극장"},
    {"beach", "to the beach", "at the beach", "바닷가"},
    {"mountain", "to the mountain", "on the mountain", "산"},
    {"church", "to the church", "in the church", "교회"},
    {"Seoul", "to Seoul", "in Seoul", "서울"},
    {"Korea", "to Korea", "in Korea", "한국"},
};

constexpr Time time_table[] = {
    {"yesterday", "어제", Tense::past},    {"last night", "어젯밤에", Tense::past},   {"last year", "작년에", Tense::past},
    {"every day", "매일", Tense::present}, {"these days", "요즘", Tense::present},    {"every morning", "아침마다", Tense::present},
    {"tomorrow", "내일", Tense::future},   {"next week", "다음 주에", Tense::future}, {"tonight", "오늘 밤에", Tense::future},
};

constexpr Number number_table[] = {
    {"one", "한"},   {"two", "두"},     {"three", "세"},   {"four", "네"},   {"five", "다섯"},
    {"six", "여섯"}, {"seven", "일곱"}, {"eight", "여덟"}, {"nine", "아홉"}, {"ten", "열"},
};

}  // namespace

std::span<const Pronoun> pronouns() { return pronoun_table; }
std::span<const Noun> nouns() { return noun_table; }
std::span<const Verb> transitive_verbs() { return transitive_table; }
std::span<const Verb> intransitive_verbs() { return intransitive_table; }
std::span<const Verb> motion_verbs() { return motion_table; }
std::span<const Adjective> adjectives() { return adjective_table; }
std::span<const Place> places() { return place_table; }
std::span<const Time> times() { return time_table; }
std::span<const Number> numbers() { return number_table; }

const Pronoun& pronoun(std::string_view subject) {
  for (const Pronoun& p : pronoun_table)
    if (p.subject == subject) return p;
  fail("toy corpus", "no pronoun '{}'", subject);
}

const Noun& noun(std::string_view english) {
  for (const Noun& n : noun_table)
    if (n.english == english) return n;
  fail("toy corpus", "no noun '{}'", english);
}

const Place& place(std::string_view english) {
  for (const Place& p : place_table)
    if (p.english == english) return p;
  fail("toy corpus", "no place '{}'", english);
}

}  // namespace transformer::toy
