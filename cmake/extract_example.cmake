# cmake -DFROM=README.md -DTO=example.cpp -P extract_example.cmake: the ```cpp blocks of a Markdown file, as one source file. A block
# that has a main is the program; blocks without one are run one after the other.
cmake_minimum_required(VERSION 3.22)
file(READ "${FROM}" text)
set(fence "```cpp\n")
string(LENGTH "${fence}" skip)
set(programs 0)
set(blocks 0)
set(code "")
set(calls "")
while(TRUE)
  string(FIND "${text}" "${fence}" begin)
  if(begin EQUAL -1)
    break()
  endif()
  math(EXPR begin "${begin} + ${skip}")
  string(SUBSTRING "${text}" ${begin} -1 text)
  string(FIND "${text}" "\n```" end)
  if(end EQUAL -1)
    message(FATAL_ERROR "${FROM}: a cpp block has no end")
  endif()
  string(SUBSTRING "${text}" 0 ${end} block)
  string(SUBSTRING "${text}" ${end} -1 text)
  if(block MATCHES "int main\\(")
    math(EXPR programs "${programs} + 1")
    set(program "${block}\n")
  else()
    math(EXPR blocks "${blocks} + 1")
    string(APPEND code "void block_${blocks}() {\n${block}\n}\n\n")
    string(APPEND calls "  std::printf(\"--- block ${blocks}\\n\");\n  block_${blocks}();\n")
  endif()
endwhile()
if(programs EQUAL 1 AND blocks EQUAL 0)
  file(WRITE "${TO}" "${program}")
elseif(programs EQUAL 0 AND blocks GREATER 0)
  file(WRITE "${TO}" "#include <atomic>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include \"transformer/transformer.h\"
using namespace transformer;

${code}int main() {
${calls}}
")
else()
  message(FATAL_ERROR "${FROM} has ${programs} cpp blocks with a main and ${blocks} without: expected one program, or only parts")
endif()
