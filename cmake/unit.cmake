# add_unit(TARGET FOLDER NAME SOURCE...): the sources, whose paths are relative to FOLDER, are compiled as one unit, a file of the build
# directory that includes them: most of the time of a small file goes into headers and templates that its neighbours need too. So names in
# anonymous namespaces must be unique within a unit. With TRANSFORMER_UNITS=OFF each is compiled by itself.
# Optimised less than the kernels: time is spent in those, and -O3 takes longer to compile. Tests and the command line least of all.
function(add_unit target folder name)
  set(sources)
  if(TRANSFORMER_UNITS AND ARGN)
    list(TRANSFORM ARGN REPLACE ".+" "#include \"\\0\"\n" OUTPUT_VARIABLE lines)
    string(CONCAT content ${lines})
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/units/${name}.cpp)
    file(CONFIGURE OUTPUT ${unit} CONTENT "${content}" @ONLY)  # written only when it changes
    set(sources ${unit})
  elseif(ARGN)
    list(TRANSFORM ARGN PREPEND ${folder}/ OUTPUT_VARIABLE sources)
  endif()
  if(sources)
    target_sources(${target} PRIVATE ${sources})
    set(level -O2)
    if(name MATCHES "^(cli|tests_.*)$")
      set(level -O1)
    endif()
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:${level}>")
  endif()
endfunction()
