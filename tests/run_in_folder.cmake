# cmake -DPROGRAM=… -DFOLDER=… -P run_in_folder.cmake: runs a program in an empty folder, which is removed when it succeeded.
file(REMOVE_RECURSE "${FOLDER}")
file(MAKE_DIRECTORY "${FOLDER}")
execute_process(COMMAND "${PROGRAM}" WORKING_DIRECTORY "${FOLDER}" COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE "${FOLDER}")
