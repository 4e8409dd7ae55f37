;; attack: component types 80,000 deep, whose reader would run off its stack
;; expect: admission refused: types inside types
;; generate: component-types depth=80000
