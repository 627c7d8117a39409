# cmake -DFOLDER=web -DOUT=page.cpp -P embed.cmake: the files of a folder as a C++ source, the table that serve/assets.h declares.
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")
set(type_png "image/png")

file(GLOB_RECURSE files RELATIVE ${FOLDER} ${FOLDER}/*)
list(SORT files)
set(arrays "")
set(rows "")
set(number 0)
foreach(file ${files})
  get_filename_component(ending ${file} LAST_EXT)
  string(SUBSTRING "${ending}" 1 -1 ending)
  if(NOT DEFINED type_${ending})
    message(FATAL_ERROR "${FOLDER}/${file}: embed.cmake knows no content type for .${ending}")
  endif()
  file(READ ${FOLDER}/${file} bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")  # lines of 16 bytes
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "constexpr unsigned char file_${number}[] = {\n${bytes}};\n")
  string(APPEND rows "      {\"/${file}\", \"${type_${ending}}\", bytes(file_${number})},\n")
  math(EXPR number "${number} + 1")
endforeach()

file(WRITE ${OUT} "#include \"serve/assets.h\"

namespace transformer {
namespace {
${arrays}
template <std::size_t n>
std::string_view bytes(const unsigned char (&file)[n]) {
  return {reinterpret_cast<const char*>(file), n};
}
}  // namespace

std::span<const Asset> assets() {
  static const Asset all[] = {
${rows}  };
  return all;
}

}  // namespace transformer
")
