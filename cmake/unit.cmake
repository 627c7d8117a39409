# add_unit(TARGET FOLDER NAME SOURCE...): the sources, whose paths are relative to FOLDER, are compiled as one unit, a file of the build
# directory that includes them: most of the time of a small file goes into headers and templates that its neighbours need too. So names in
# anonymous namespaces must be unique within a unit. With TRANSFORMER_UNITS=OFF each is compiled by itself.
# Optimised less than the kernels: time is spent in those, and -O3 takes longer to compile. Tests and the command line least of all.
function(add_unit target folder name)
  unit_sources(sources ${folder} ${name}.cpp ${ARGN})
  if(sources)
    target_sources(${target} PRIVATE ${sources})
    set(level -O2)
    if(name MATCHES "^(cli|tests_.*)$")
      set(level -O1)
    endif()
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:${level}>")
  endif()
endfunction()

# unit_sources(OUT FOLDER FILE SOURCE...): what is to be compiled for these sources: the unit FILE, or each by itself.
function(unit_sources out folder file)
  set(sources)
  if(TRANSFORMER_UNITS AND ARGN)
    list(TRANSFORM ARGN REPLACE ".+" "#include \"\\0\"\n" OUTPUT_VARIABLE lines)
    string(CONCAT content ${lines})
    set(sources ${CMAKE_CURRENT_BINARY_DIR}/units/${file})
    file(CONFIGURE OUTPUT ${sources} CONTENT "${content}" @ONLY)  # written only when it changes
  elseif(ARGN)
    list(TRANSFORM ARGN PREPEND ${folder}/ OUTPUT_VARIABLE sources)
  endif()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()
