;; attack: two components inside hand each other a value of a million parts, which the engine has to write code to copy
;; expect: admission refused: can't be born
;; generate: adapter levels=3 fan=90
