;; attack: blocks as deep as may be
;; expect: replied done
;; generate: nesting depth=1990 functions=1
