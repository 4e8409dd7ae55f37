;; attack: as many locals as one function may have
;; expect: replied done
;; generate: locals count=20000 functions=1
