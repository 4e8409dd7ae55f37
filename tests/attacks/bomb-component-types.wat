;; attack: component types a million deep, whose reader would run off its stack
;; expect: admission refused: types inside types
;; generate: component-types depth=1000000
